"""`paddle.device`: where everything runs."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.core.places: is_compiled_with_cuda
    refluid.paddle.framework.devices: set_device get_device get_all_device_type
    refluid.paddle.framework.devices: get_available_device get_cudnn_version
    refluid.paddle.framework.devices: is_compiled_with_rocm is_compiled_with_cinn
    refluid.paddle.framework.devices: is_compiled_with_distribute is_compiled_with_xpu
    refluid.paddle.framework.devices: is_compiled_with_ipu is_compiled_with_custom_device
    refluid.paddle.device.streams: Event Stream current_stream set_stream stream_guard synchronize
    refluid.paddle.device.streams: get_all_custom_device_type get_available_custom_device
    """,
)
