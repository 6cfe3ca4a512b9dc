"""Excel workbooks: the cells of the first sheet, as text, which is then read like the text of a CSV file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairbound._errors import import_extra
from fairbound.data.arrow import import_pyarrow
from fairbound.data.batches import ArrowTable
from fairbound.data.delimited import check_names, numbered
from fairbound.data.labels import as_word

SUFFIXES = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")


def open_workbook(path: Path) -> ArrowTable:
    """Return the rows of the first sheet, whose first row has the names of the columns."""
    calamine = import_extra("python_calamine", f"Reading {path.name} needs", "excel")
    pa = import_pyarrow()
    try:
        sheet = calamine.CalamineWorkbook.from_path(str(path)).get_sheet_by_index(0)
        header, *rows = sheet.to_python(skip_empty_area=True) or [[]]
    except (calamine.CalamineError, OSError) as error:
        raise ValueError(f"{path.name} is not a workbook that can be read ({error}); save it again.") from error
    names = numbered(_text(name).strip() for name in header)
    check_names(names, path.name)
    if not rows:
        raise ValueError(f"{path.name} has a row of column names and no other row; give at least one.")
    columns = {name: pa.array([_text(row[place]) for row in rows], pa.string()) for place, name in enumerate(names)}
    return ArrowTable(place=path.name, names=names, n_rows=len(rows), table=pa.table(columns), is_typed=False)


def _text(cell: Any) -> str:
    """Return a cell as it is shown in a CSV file; dates are those of ISO 8601."""
    return cell.isoformat() if hasattr(cell, "isoformat") else as_word(cell)
