"""`python -m understudy` is the command `understudy`, run by this interpreter."""

from understudy.cli import main

if __name__ == "__main__":
    main()
