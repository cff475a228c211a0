"""python -m whence: the command line, for where the script is not on the path."""

from whence.cli import main

if __name__ == "__main__":
    main()
