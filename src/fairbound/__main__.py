"""`python -m fairbound` is the command line."""

from fairbound.cli import main

if __name__ == "__main__":
    main()
