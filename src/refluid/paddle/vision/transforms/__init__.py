"""`paddle.vision.transforms`: images changed, as Pillow has them, as arrays and as tensors."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.vision.transforms.base: BaseTransform Compose
    refluid.paddle.vision.transforms.coloring: BrightnessTransform ColorJitter ContrastTransform
    refluid.paddle.vision.transforms.coloring: Grayscale HueTransform SaturationTransform
    refluid.paddle.vision.transforms.converting: Normalize RandomErasing ToTensor Transpose
    refluid.paddle.vision.transforms.cropping: CenterCrop Pad RandomCrop RandomHorizontalFlip
    refluid.paddle.vision.transforms.cropping: RandomResizedCrop RandomVerticalFlip Resize
    refluid.paddle.vision.transforms.functional: adjust_brightness adjust_contrast adjust_hue affine
    refluid.paddle.vision.transforms.functional: center_crop crop erase hflip normalize pad
    refluid.paddle.vision.transforms.functional: perspective resize rotate to_grayscale to_tensor
    refluid.paddle.vision.transforms.functional: vflip
    refluid.paddle.vision.transforms.warping: RandomAffine RandomPerspective RandomRotation
    """,
)
