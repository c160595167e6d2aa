"""The documentation as web pages: `make site`."""
