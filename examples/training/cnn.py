"""A small convolutional network that learns to distinguish four noisy patterns. Needs PyTorch and half a minute of CPU.

python cnn.py [EPOCHS]
"""

import hashlib
import sys

import torch
from torch import nn

from rota.train.torch import session

torch.manual_seed(0)
torch.set_num_threads(1)
epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 3


class Patterns(torch.utils.data.Dataset):
    """Horizontal, vertical, rising or falling stripes, with new noise each time."""

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        rows, columns = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
        kind = index % 4
        stripes = (rows, columns, rows + columns, rows - columns)[kind]
        image = ((stripes + index // 4) % 4 < 2).float() + 0.8 * torch.randn(16, 16)
        return image[None], kind


def network():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(256, 4),
    )


model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)

with session(model, optimizer, scheduler) as job:
    if job.resumed:
        print(f"resumes at step {job.step}")
    batches = job.loader(Patterns(), batch_size=32)
    for epoch in job.epochs(epochs):
        for images, kinds in job.steps(batches):
            loss = nn.functional.cross_entropy(model(images), kinds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            job.log(loss=loss)
        scheduler.step()
        print(f"epoch {epoch + 1} of {epochs}: loss {loss.item():.4f}")

weights = hashlib.sha256(b"".join(tensor.numpy().tobytes() for tensor in model.state_dict().values())).hexdigest()
print(f"done: {job.step} steps, weights {weights[:16]}")
