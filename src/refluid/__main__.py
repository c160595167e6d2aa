"""`python -m refluid`: the `refluid` command, where its folder isn't in the PATH."""

from refluid.cli.main import app

if __name__ == "__main__":
    app(prog_name="refluid")
