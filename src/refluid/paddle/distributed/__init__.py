"""`paddle.distributed`: the launcher; training in several processes is still to come."""
