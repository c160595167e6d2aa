"""What torch and the processor give, below all else: nothing of refluid is known in here.

Every private name of torch that refluid uses stands in this package, in the table of `parts`, with
what does the same where a torch lacks it. `rows` has the loops over rows of tables.
"""
