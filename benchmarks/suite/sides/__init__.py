"""How each framework trains a workload, behind one interface (`sides.side`)."""
