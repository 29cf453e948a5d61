"""CUDA kernels tested without a GPU: a simulator, a simulated device, and a compiler."""
