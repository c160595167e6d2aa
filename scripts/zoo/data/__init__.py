"""Small data for public scripts, in the formats their readers take, with something to learn."""
