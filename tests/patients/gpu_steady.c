/* gpu_steady.c -- training as it should be: a model, and activations that come and go with each
 * step. */
#include "gpu.h"

enum { LAYERS = 10 };

int main(void)
{
	uint64_t layers[LAYERS];

	gpu_start();
	uint64_t model = gpu_alloc(300 * MB);
	void *state = filled(20 * MB);
	ready();
	while (goes_on(50)) {
		for (int i = 0; i < LAYERS; i++)
			layers[i] = gpu_alloc((size_t)(4 + i) * MB);
		for (int i = 0; i < LAYERS; i++)
			cu.cuMemFree_v2(layers[i]);
	}
	cu.cuMemFree_v2(model);
	free(state);
	return 0;
}
