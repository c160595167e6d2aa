"""`fluid.contrib.utils`: files of HDFS."""

from refluid.fluid.contrib.utils.hdfs_utils import HDFSClient, multi_download, multi_upload

__all__ = ["HDFSClient", "multi_download", "multi_upload"]
