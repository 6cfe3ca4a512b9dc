"""The paper's figures and tables by name, resumable, beside the printed numbers."""
