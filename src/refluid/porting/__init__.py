"""What brings scripts of other days here: old Python translated, names given back, projects read.

Nothing of it changes a library: it works on the text of the user's own files as they are imported.
"""
