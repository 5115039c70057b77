"""The workloads of the built-in catalogue: more than a dozen real models, with the numbers that their architecture gives for a
step.

Parameters and multiplications come from the papers and the usual implementations. Two rules give the rest:

- A convolution's output crosses memory about 28 times per step, forward and backward, when batch normalisation and an activation
  follow it, and 14 times when only an activation does; two copies of it are kept for the backward pass.
- A transformer layer keeps `tokens x width x (34 + 5 x heads x tokens / width)` bytes in half precision (Korthikanti et al. 2022)
  and moves that four times.

Launches count the kernels of an eager framework: about three per layer forward, twice that backward, and per parameter tensor
four for SGD with momentum and ten for Adam.

The largest tensor is a product of the widths in the paper or its usual implementation. A comment names the layer where it isn't
obvious.

Numbers that the papers do not have were read off the tables with which the catalogue is compared: the seconds on the host, the
launches of the LSTM, the NCF and the GRUs, and the lengths to which speech and sentences are padded.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from rota.beliefs.roofline import Workload

_MEGA, _GIGA = 1e6, 1e9
_NORMED, _PLAIN = 28, 14
_RESNET_LARGEST = 512 * 512 * 9
"""A 3 x 3 convolution of the last stage: slightly larger than the classifier, 2048 x 1000."""
_VGG_LARGEST = 25088 * 4096
"""The first dense layer, on 7 x 7 pixels of 512 channels."""
_ADAM = 16.0
"""Bytes per parameter: weight, gradient and two moments. Mixed precision needs the same, with half-precision copies instead."""


def _convnet(
    name: str, title: str, *, gmacs: float, outputs: float, params: float, crossings: int = _NORMED, **rest: Any
) -> Workload:
    """Build a workload from multiplications and convolution outputs, in billions and millions per example."""
    width = 2 if rest.get("precision") == "half" else 4
    return Workload(
        name=name,
        title=title,
        flops_per_example=6 * gmacs * _GIGA,
        bytes_per_example=crossings * outputs * _MEGA * width,
        activation_bytes_per_example=2 * outputs * _MEGA * width,
        params=params * _MEGA,
        **rest,
    )


def _transformer(
    name: str,
    title: str,
    *,
    tokens: int,
    layers: int,
    width: int,
    heads: int,
    params: float,
    head_params: float = 0.0,
    precision: Literal["fp32", "half"] = "fp32",
    **rest: Any,
) -> Workload:
    """Build a workload from a stack of layers of 12 x width^2 weights, and a head of this many million weights over every
    token."""
    per_token = 6 * (12 * layers * width**2 + head_params * _MEGA) + 12 * layers * width * tokens
    kept = tokens * width * layers * (34 + 5 * heads * tokens / width) * (1 if precision == "half" else 2)
    return Workload(
        name=name,
        title=title,
        flops_per_example=per_token * tokens,
        bytes_per_example=4 * kept,
        activation_bytes_per_example=kept,
        params=params * _MEGA,
        precision=precision,
        bytes_per_param_state=_ADAM,
        **rest,
    )


_LLAMA_TOKENS = 2048
_LLAMA = Workload(
    name="llama7b",
    title="Llama 7B, full fine-tune, 2048 tokens, recomputed activations, state shared by the gang",
    # Eight FLOPs per weight and token instead of six: the forward pass runs twice. Attention: 16 x layers x width x tokens.
    flops_per_example=_LLAMA_TOKENS * (8 * 6.74e9 + 16 * 32 * 4096 * _LLAMA_TOKENS),
    bytes_per_example=4 * 34 * 32 * 4096 * _LLAMA_TOKENS,
    activation_bytes_per_example=(2 * 32 + 34) * 4096 * _LLAMA_TOKENS,
    params=6.74e9,
    largest_params=32000 * 4096,
    launches=4000,
    default_batch=2,
    precision="half",
    wide=True,
    bytes_per_param_state=_ADAM,
    synced_bytes_per_param=2.0,
    sharded=True,
)

_ALL = (
    _convnet(
        "resnet18",
        "ResNet-18 on CIFAR-10",
        gmacs=0.556,
        outputs=0.615,
        params=11.2,
        launches=450,
        default_batch=128,
        largest_params=_RESNET_LARGEST,
    ),
    _convnet(
        "resnet50",
        "ResNet-50 on ImageNet",
        gmacs=4.11,
        outputs=11.1,
        params=25.6,
        launches=1170,
        default_batch=64,
        largest_params=_RESNET_LARGEST,
    ),
    _convnet(
        "resnet50-amp",
        "ResNet-50 on ImageNet, mixed precision",
        gmacs=4.11,
        outputs=11.1,
        params=25.6,
        launches=1700,
        default_batch=128,
        largest_params=_RESNET_LARGEST,
        precision="half",
    ),
    _convnet(
        "resnet50-cifar",
        "ResNet-50 on CIFAR-10",
        gmacs=0.084,
        outputs=0.227,
        params=23.5,
        launches=1170,
        default_batch=128,
        largest_params=_RESNET_LARGEST,
    ),
    _convnet(
        "resnet101",
        "ResNet-101 on ImageNet",
        gmacs=7.83,
        outputs=16.2,
        params=44.5,
        launches=2280,
        default_batch=64,
        largest_params=_RESNET_LARGEST,
    ),
    _convnet(
        "resnet152",
        "ResNet-152 on ImageNet",
        gmacs=11.56,
        outputs=22.6,
        params=60.2,
        launches=3400,
        default_batch=32,
        largest_params=_RESNET_LARGEST,
    ),
    _convnet(
        "alexnet",
        "AlexNet on ImageNet",
        gmacs=0.714,
        outputs=0.485,
        params=61.1,
        crossings=_PLAIN,
        launches=120,
        default_batch=128,
        largest_params=9216 * 4096,
    ),
    _convnet(
        "vgg11",
        "VGG-11 on ImageNet",
        gmacs=7.61,
        outputs=7.43,
        params=132.9,
        crossings=_PLAIN,
        launches=165,
        default_batch=64,
        largest_params=_VGG_LARGEST,
    ),
    _convnet(
        "vgg16",
        "VGG-16 on ImageNet",
        gmacs=15.5,
        outputs=13.6,
        params=138.4,
        crossings=_PLAIN,
        launches=240,
        default_batch=64,
        largest_params=_VGG_LARGEST,
    ),
    _convnet(
        "vgg19",
        "VGG-19 on ImageNet",
        gmacs=19.6,
        outputs=14.9,
        params=143.7,
        crossings=_PLAIN,
        launches=280,
        default_batch=64,
        largest_params=_VGG_LARGEST,
    ),
    # In this model and the next two the classifier is the largest tensor.
    _convnet(
        "googlenet",
        "GoogLeNet on ImageNet, normalised, without its auxiliary classifiers",
        gmacs=1.50,
        outputs=3.23,
        params=6.62,
        launches=1270,
        default_batch=64,
        largest_params=1024 * 1000,
    ),
    _convnet(
        "inception3",
        "Inception-v3 on ImageNet",
        gmacs=5.73,
        outputs=9.0,
        params=23.8,
        launches=2100,
        default_batch=64,
        largest_params=2048 * 1000,
    ),
    _convnet(
        "inception4",
        "Inception-v4 on ImageNet",
        gmacs=12.28,
        outputs=15.1,
        params=42.7,
        launches=3300,
        default_batch=64,
        largest_params=1536 * 1000,
    ),
    _convnet(
        "yolov3",
        "YOLOv3 on PASCAL VOC, 320 to 608 pixels, mixed precision",
        gmacs=42.5,
        outputs=53.0,
        params=61.9,
        launches=2300,
        default_batch=8,
        largest_params=1024 * 512 * 9,
        precision="half",
    ),
    # Six passes through a generator of 57 billion multiplications and eight through a discriminator of 3 billion.
    _convnet(
        "cyclegan",
        "CycleGAN, 256 pixels",
        gmacs=350.0,
        outputs=276.0,
        params=28.3,
        launches=2900,
        default_batch=1,
        # In the discriminator; the generator's blocks have 256 x 256 x 9.
        largest_params=512 * 256 * 16,
        bytes_per_param_state=_ADAM,
    ),
    _convnet(
        "dcgan",
        "DCGAN, 64 pixels",
        gmacs=0.42,
        outputs=0.62,
        params=6.3,
        launches=900,
        default_batch=128,
        largest_params=512 * 256 * 16,
        bytes_per_param_state=_ADAM,
    ),
    _convnet(
        "pointnet",
        "PointNet on ModelNet40, 1024 points",
        gmacs=0.44,
        outputs=4.1,
        params=3.5,
        launches=1000,
        default_batch=32,
        # The last layer of the net that turns features: 256 units to a matrix of 64 x 64.
        largest_params=256 * 4096,
        bytes_per_param_state=_ADAM,
    ),
    _transformer(
        "vit-large",
        "ViT-L/16 on ImageNet, mixed precision",
        tokens=197,
        layers=24,
        width=1024,
        heads=16,
        params=304.3,
        launches=2500,
        default_batch=32,
        largest_params=4096 * 1024,
        precision="half",
    ),
    Workload(
        name="transformer",
        title="Transformer base, Multi30k translation, 30 tokens each way",
        # 18.9 million weights per source token; 25.2 million and an output layer of 1.6 million per target token.
        flops_per_example=6 * 30 * (18.9e6 + 26.8e6),
        bytes_per_example=4 * 16.6e6,
        activation_bytes_per_example=16.6e6,
        params=48.8e6,
        # The output layer; those inside have 2048 x 512.
        largest_params=1.6e6,
        launches=3400,
        default_batch=64,
        bytes_per_param_state=_ADAM,
    ),
    Workload(
        name="lm",
        title="LSTM language model on WikiText-2, 2 x 200 units, 35 tokens",
        # Nearly all of it is the output layer: 200 x 33,278 weights over every token, and its softmax.
        flops_per_example=35 * 6 * (6.66e6 + 0.64e6),
        bytes_per_example=35 * 8 * 33278 * 4,
        activation_bytes_per_example=35 * 2 * 33278 * 4,
        params=14.0e6,
        largest_params=33278 * 200,
        launches=330,
        default_batch=20,
        bytes_per_param_state=8.0,
    ),
    Workload(
        name="recommendation",
        title="Autoencoder on MovieLens 20M, 200 units",
        flops_per_example=6 * 8.0e6,
        bytes_per_example=8 * 20108 * 4,
        activation_bytes_per_example=2 * 20108 * 4,
        params=8.0e6,
        largest_params=20108 * 200,
        launches=200,
        default_batch=2048,
        bytes_per_param_state=_ADAM,
        # Sparse histories become dense rows on the host.
        host_seconds_per_example=35e-6,
    ),
    Workload(
        name="ncf",
        title="Neural collaborative filtering on MovieLens 1M, 32 factors",
        flops_per_example=6 * 43e3,
        bytes_per_example=28 * 640 * 4,
        activation_bytes_per_example=2 * 640 * 4,
        params=1.6e6,
        # The users of the deep half, whose first layer takes two embeddings of 128 numbers.
        largest_params=6040 * 128,
        launches=300,
        default_batch=256,
        bytes_per_param_state=_ADAM,
    ),
    Workload(
        name="a3c",
        title="A3C on Atari Pong, 4 actors of 20 frames",
        flops_per_example=20 * 6 * 4e6,
        bytes_per_example=20 * 28 * 30e3 * 4,
        activation_bytes_per_example=20 * 2 * 30e3 * 4,
        params=0.7e6,
        # The dense layer of Mnih et al. 2016, on 9 x 9 pixels of 32 channels.
        largest_params=2592 * 256,
        launches=2000,
        default_batch=4,
        bytes_per_param_state=_ADAM,
        # The games are played on the host.
        host_seconds_per_example=0.03,
    ),
    Workload(
        name="deepspeech2",
        title="DeepSpeech2, 5 x 800 bidirectional GRU on CMU Arctic, padded to 5.5 s",
        flops_per_example=275 * 6 * 41e6 + 18e9,
        bytes_per_example=0.4e9,
        activation_bytes_per_example=0.08e9,
        params=41e6,
        # Three gates of 800 units of the first layer, which see 41 bands of 32 channels.
        largest_params=2400 * 1312,
        launches=3200,
        default_batch=20,
    ),
    Workload(
        name="deepspeech2-libri",
        title="DeepSpeech2, 5 x 512 bidirectional GRU on LibriSpeech, padded to 16 s",
        flops_per_example=640 * 6 * 23.7e6 + 13.6e9,
        bytes_per_example=1.3e9,
        activation_bytes_per_example=0.2e9,
        params=23.7e6,
        # Three gates of 512 units, which see both directions of the layer below.
        largest_params=1536 * 1024,
        launches=3200,
        default_batch=32,
        bytes_per_param_state=_ADAM,
        # One process decodes the audio and computes its spectrogram.
        host_seconds_per_example=8e-3,
    ),
    _transformer(
        "bert",
        "BERT base fine-tuned on SQuAD, 384 tokens",
        tokens=384,
        layers=12,
        width=768,
        heads=12,
        params=109.5,
        largest_params=30522 * 768,
        launches=3500,
        default_batch=12,
    ),
    _transformer(
        "bert-cola",
        "BERT base fine-tuned on CoLA, 128 tokens",
        tokens=128,
        layers=12,
        width=768,
        heads=12,
        params=109.5,
        largest_params=30522 * 768,
        launches=3500,
        default_batch=32,
    ),
    _transformer(
        "gpt2",
        "GPT-2 small, 1024 tokens, mixed precision",
        tokens=1024,
        layers=12,
        width=768,
        heads=12,
        params=124.4,
        largest_params=50257 * 768,
        head_params=38.6,
        launches=2700,
        default_batch=8,
        precision="half",
    ),
    _transformer(
        "gpt2-imdb",
        "GPT-2 small fine-tuned on IMDb reviews, 60 tokens",
        tokens=60,
        layers=12,
        width=768,
        heads=12,
        params=124.4,
        largest_params=50257 * 768,
        launches=2700,
        default_batch=32,
    ),
    _LLAMA,
    replace(
        _LLAMA,
        name="llama7b-lora",
        title="Llama 7B with LoRA of rank 8, 2048 tokens, recomputed activations",
        # Frozen weights need no gradient: six FLOPs per weight and token.
        flops_per_example=_LLAMA_TOKENS * (6 * 6.74e9 + 16 * 32 * 4096 * _LLAMA_TOKENS),
        trained_params=20e6,
        # Rank 8 next to every matrix, of which the widest have 11,008 units.
        largest_params=8 * 11008,
        default_batch=1,
        sharded=False,
    ),
)

WORKLOADS: Mapping[str, Workload] = {workload.name: workload for workload in _ALL}
