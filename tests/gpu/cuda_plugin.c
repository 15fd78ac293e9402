/* cuda_plugin.c -- a library whose constructor uses the device: see cuda_moments.c. */
void cuda_moments_constructor(void);

__attribute__((constructor)) static void on_load(void)
{
	cuda_moments_constructor();
}
