"""`paddle.vision.models`: networks for images."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.vision.models.alex: AlexNet alexnet
    refluid.paddle.vision.models.densenet: DenseNet densenet121 densenet161 densenet169
    refluid.paddle.vision.models.densenet: densenet201 densenet264
    refluid.paddle.vision.models.google: GoogLeNet googlenet
    refluid.paddle.vision.models.inception: InceptionV3 inception_v3
    refluid.paddle.vision.models.lenet: LeNet
    refluid.paddle.vision.models.mobilenet: MobileNetV1 MobileNetV2 mobilenet_v1 mobilenet_v2
    refluid.paddle.vision.models.mobilenet3: MobileNetV3Large MobileNetV3Small
    refluid.paddle.vision.models.mobilenet3: mobilenet_v3_large mobilenet_v3_small
    refluid.paddle.vision.models.resnet: ResNet resnet101 resnet152 resnet18 resnet34 resnet50
    refluid.paddle.vision.models.resnet: resnext101_32x4d resnext101_64x4d resnext152_32x4d
    refluid.paddle.vision.models.resnet: resnext152_64x4d resnext50_32x4d resnext50_64x4d
    refluid.paddle.vision.models.resnet: wide_resnet101_2 wide_resnet50_2
    refluid.paddle.vision.models.shufflenet: ShuffleNetV2 shufflenet_v2_swish shufflenet_v2_x0_25
    refluid.paddle.vision.models.shufflenet: shufflenet_v2_x0_33 shufflenet_v2_x0_5
    refluid.paddle.vision.models.shufflenet: shufflenet_v2_x1_0 shufflenet_v2_x1_5
    refluid.paddle.vision.models.shufflenet: shufflenet_v2_x2_0
    refluid.paddle.vision.models.squeezenet: SqueezeNet squeezenet1_0 squeezenet1_1
    refluid.paddle.vision.models.vgg: VGG vgg11 vgg13 vgg16 vgg19
    """,
)
