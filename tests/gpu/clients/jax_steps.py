"""JAX on its own allocator, or the one that the caller sets (XLA_PYTHON_CLIENT_ALLOCATOR=platform: every buffer is asked of the driver): a few
steps of gradient descent, checked against NumPy."""

import jax
import jax.numpy as jnp
import numpy

from client import finish

assert jax.default_backend() in ("gpu", "cuda"), jax.default_backend()
random = numpy.random.RandomState(1)
inputs = random.rand(512, 64).astype(numpy.float32)
wanted = inputs @ random.rand(64, 1).astype(numpy.float32)


def loss(weights, x, y):
	return jnp.mean((jnp.matmul(x, weights, precision="highest") - y) ** 2)


step = jax.jit(jax.value_and_grad(loss))
weights = jnp.zeros((64, 1), dtype=jnp.float32)
mirror = numpy.zeros((64, 1), dtype=numpy.float32)
losses = []
for _ in range(50):
	value, gradient = step(weights, jnp.asarray(inputs), jnp.asarray(wanted))
	weights = weights - 0.01 * gradient
	error = inputs @ mirror - wanted
	mirror = mirror - 0.01 * (2 / 512) * inputs.T @ error
	losses.append(float(value))
assert losses[-1] < losses[0]
assert numpy.allclose(numpy.asarray(weights), mirror, rtol=1e-3, atol=1e-4)
finish(jax=jax.__version__, results=[round(value, 4) for value in losses])
