"""A small transformer that learns to sort digits. Needs PyTorch and half a minute of CPU.

python transformer.py [EPOCHS]
"""

import hashlib
import sys

import torch
from torch import nn

from rota.train.torch import session

torch.manual_seed(0)
torch.set_num_threads(1)
epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 4
LENGTH, WIDTH = 8, 32


class Digits(torch.utils.data.Dataset):
    """Eight digits, and the same digits sorted."""

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        digits = torch.randint(0, 10, (LENGTH,), generator=torch.Generator().manual_seed(index))
        return digits, digits.sort().values


class Sorter(nn.Module):
    def __init__(self):
        super().__init__()
        self.digit = nn.Embedding(10, WIDTH)
        self.place = nn.Parameter(torch.randn(LENGTH, WIDTH) / 10)
        layer = nn.TransformerEncoderLayer(WIDTH, nhead=4, dim_feedforward=64, dropout=0.1, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.answer = nn.Linear(WIDTH, 10)

    def forward(self, digits):
        return self.answer(self.layers(self.digit(digits) + self.place))


model = Sorter()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=epochs * 128)

with session(model, optimizer, scheduler) as job:
    if job.resumed:
        print(f"resumes at step {job.step}")
    batches = job.loader(Digits(), batch_size=32)
    for epoch in job.epochs(epochs):
        for digits, ordered in job.steps(batches):
            guess = model(digits)
            loss = nn.functional.cross_entropy(guess.flatten(0, 1), ordered.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            job.log(loss=loss, right=(guess.argmax(-1) == ordered).float().mean())
        print(f"epoch {epoch + 1} of {epochs}: loss {loss.item():.4f}")

weights = hashlib.sha256(b"".join(tensor.numpy().tobytes() for tensor in model.state_dict().values())).hexdigest()
print(f"done: {job.step} steps, weights {weights[:16]}")
