#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes bench/traces/vgg16_b32.jsonl.gz: a training step of VGG-16 as PyTorch's autograd runs it, computed from the
shapes of its layers. Few huge buffers of many sizes: no freed one fits the next."""
import gzip
import json
import sys

BATCH, STEPS = 32, 4
LAYERS = [64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"]
LINEAR = [(25088, 4096), (4096, 4096), (4096, 1000)]


class Trace:
    def __init__(self, out):
        self.out, self.next, self.bytes, self.live = out, 0, {}, set()

    def line(self, **event):
        self.out.write(json.dumps(event, separators=(",", ":")) + "\n")

    def alloc(self, numbers):
        buffer, self.next = self.next, self.next + 1
        self.bytes[buffer] = 4 * numbers
        self.live.add(buffer)
        self.line(e="alloc", b=buffer, n=4 * numbers)
        return buffer

    def free(self, *buffers):
        for buffer in buffers:
            self.live.remove(buffer)
            self.line(e="free", b=buffer)

    def op(self, name, reads, writes, flops):
        moved = sum(self.bytes[buffer] for buffer in reads) + sum(self.bytes[buffer] for buffer in writes)
        self.line(e="op", k=name, r=reads, w=writes, flops=flops, bytes=moved)


def pool(trace, at, channels, size):
    out, where = trace.alloc(BATCH * channels * size * size), trace.alloc(2 * BATCH * channels * size * size)
    trace.op("max_pool2d_with_indices", [at], [out, where], 4 * BATCH * channels * size * size)
    return out, where


def forward(trace, model, at):
    """The loss's input, and what the way back needs of each layer, in order."""
    saved, channels, size = [], 3, 224
    weights = iter(model)
    for layer in LAYERS:
        if layer == "M":
            size //= 2
            out, where = pool(trace, at, channels, size)
            saved.append(("pool", at, where, channels, size))
        else:
            weight, bias = next(weights)
            flops = 2 * 9 * channels * layer * BATCH * size * size
            out = trace.alloc(BATCH * layer * size * size)
            trace.op("convolution", [at, weight, bias], [out], flops)
            trace.op("relu_", [out], [out], BATCH * layer * size * size)
            saved.append(("convolution", at, out, weight, bias, flops))
            channels = layer
        at = out
    for number, (inputs, outputs) in enumerate(LINEAR):
        weight, bias = next(weights)
        flops = 2 * BATCH * inputs * outputs
        out = trace.alloc(BATCH * outputs)
        trace.op("addmm", [bias, at, weight], [out], flops)
        saved.append(("linear", at, out, weight, bias, flops))
        at = out
        if number < 2:
            trace.op("relu_", [out], [out], BATCH * outputs)
            dropped, mask = trace.alloc(BATCH * outputs), trace.alloc(BATCH * outputs // 4)
            trace.op("native_dropout", [out], [dropped, mask], BATCH * outputs)
            saved.append(("dropout", out, mask, outputs))
            at = dropped
    return at, saved


def backward(trace, loss, saved, images):
    """The gradients by parameter."""
    gradients, gradient = {}, loss
    for name, at, out, *rest in reversed(saved):
        if name == "pool":
            channels, size = rest
            into = trace.alloc(BATCH * channels * 4 * size * size)
            trace.op("max_pool2d_with_indices_backward", [gradient, at, out], [into], BATCH * channels * size * size)
            trace.free(gradient, out)
        elif name == "dropout":
            into = trace.alloc(BATCH * rest[0])
            trace.op("native_dropout_backward", [gradient, out], [into], BATCH * rest[0])
            trace.free(gradient, out)
        else:
            weight, bias, flops = rest
            if name == "convolution" or trace.bytes[out] == BATCH * 4096 * 4:
                through = trace.alloc(trace.bytes[out] // 4)
                trace.op("threshold_backward", [gradient, out], [through], trace.bytes[out] // 4)
                trace.free(gradient)
                gradient = through
            into = trace.alloc(trace.bytes[at] // 4) if at != images else None
            gradients[weight] = trace.alloc(trace.bytes[weight] // 4)
            gradients[bias] = trace.alloc(trace.bytes[bias] // 4)
            made = ([into] if into is not None else []) + [gradients[weight], gradients[bias]]
            trace.op(name + "_backward", [gradient, at, weight], made, 2 * flops)
            trace.free(gradient, out)
        gradient = into
    return gradients


def step(trace, model, momenta):
    images, labels = trace.alloc(BATCH * 3 * 224 * 224), trace.alloc(2 * BATCH)
    at, saved = forward(trace, model, images)
    # The last dropout's result is the last layer's input, and the last pool's the first one's: freed with their reader.
    logs, loss = trace.alloc(BATCH * 1000), trace.alloc(1)
    trace.op("_log_softmax", [at], [logs], BATCH * 5000)
    trace.op("nll_loss_forward", [logs, labels], [loss], BATCH)
    gradient = trace.alloc(BATCH * 1000)
    trace.op("nll_loss_backward", [logs, labels], [gradient], BATCH)
    into = trace.alloc(BATCH * 1000)
    trace.op("_log_softmax_backward_data", [gradient, logs], [into], BATCH * 5000)
    trace.free(gradient, logs)
    gradients = backward(trace, into, saved, images)
    for weight, bias in model:
        for parameter in (weight, bias):
            numbers = trace.bytes[parameter] // 4
            if parameter not in momenta:
                momenta[parameter] = trace.alloc(numbers)
                trace.op("clone", [gradients[parameter]], [momenta[parameter]], 0)
            else:
                momentum = momenta[parameter]
                trace.op("mul_", [momentum], [momentum], numbers)
                trace.op("add_", [momentum, gradients[parameter]], [momentum], 2 * numbers)
            trace.op("add_", [parameter, momenta[parameter]], [parameter], 2 * numbers)
    held = {one for pair in model for one in pair} | set(momenta.values())
    trace.free(*sorted(trace.live - held))


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "bench/traces/vgg16_b32.jsonl.gz"
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, 0) as packed:
        lines = []
        trace = Trace(type("Lines", (), {"write": staticmethod(lines.append)}))
        trace.line(schema="thermocline-trace/1", source="scripts/vgg16_trace.py", model="vgg16", batch=BATCH,
                   dtype="float32", optimizer="sgd, momentum 0.9", steps=STEPS)
        shapes, channels = [], 3
        for layer in LAYERS:
            if layer != "M":
                shapes.append((9 * channels * layer, layer))
                channels = layer
        shapes += [(inputs * outputs, outputs) for inputs, outputs in LINEAR]
        model = [(trace.alloc(weight), trace.alloc(bias)) for weight, bias in shapes]
        momenta = {}
        for number in range(STEPS):
            step(trace, model, momenta)
            trace.line(e="step", i=number)
        packed.write("".join(lines).encode())


if __name__ == "__main__":
    main()
