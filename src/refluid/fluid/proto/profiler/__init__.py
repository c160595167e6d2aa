"""Messages of profile files."""
