"""`paddle.distributed`: the launcher, exchanges between processes, and fleets (`fleet`).

It is imported at no cost, so that the launcher starts at once.
"""

from refluid.core.lazy_package import make_lazy

make_lazy(__name__, "refluid.paddle.distributed.public")
