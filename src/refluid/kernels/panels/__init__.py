"""Products of float32 matrices by loops of refluid's own, which lay the factors as panels.

A panel has some lines of a factor, rows of the left one and columns of the right one, number by
number: what a tile of the result takes lies one after the other, and stays in the caches nearest to
the processor. MKL does so, too; on some processors it is slower by a tenth to a third, and where
the left factor has few rows by half, as it lays the right one anew for each product.
"""
