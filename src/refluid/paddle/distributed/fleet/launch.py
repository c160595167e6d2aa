"""`python -m paddle.distributed.fleet.launch`, also `fleetrun`: `paddle.distributed.launch`."""

from refluid.paddle.distributed.launch import launch

__all__ = ["launch"]

if __name__ == "__main__":
    launch()
