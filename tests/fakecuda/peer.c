/* peer.c -- contexts that reach each other's memory: all devices can, none does before it was asked
 * to. */
#include "internal.h"

enum { PEER_COUNT = sizeof(((struct CUctx_st *)0)->peers) / sizeof(struct CUctx_st *) };

int cuDeviceCanAccessPeer(int *can, int device, int peer)
{
	const int result = fake_enter(FN_cuDeviceCanAccessPeer, NULL);

	if (result != OK)
		return result;
	if (can == NULL)
		return fake_leave(INVALID_VALUE);
	if (!fake_device_is(device) || !fake_device_is(peer))
		return fake_leave(INVALID_DEVICE);
	*can = device != peer;
	return fake_leave(OK);
}

static struct CUctx_st **find(struct CUctx_st *context, const struct CUctx_st *peer)
{
	int i;

	for (i = 0; i < PEER_COUNT; i++)
		if (context->peers[i] == peer)
			return &context->peers[i];
	return NULL;
}

int cuCtxEnablePeerAccess(struct CUctx_st *peer, unsigned int flags)
{
	struct CUctx_st *context, **place;
	int result = fake_enter(FN_cuCtxEnablePeerAccess, &context);

	if (result != OK)
		return result;
	result = fake_context_check(peer);
	if (result != OK)
		return fake_leave(result);
	if (flags != 0)
		return fake_leave(INVALID_VALUE);
	if (peer == context || peer->is_green || context->is_green)
		return fake_leave(INVALID_CONTEXT);
	/* Contexts of one device have no peer access to each other; their memory is apart all the
	 * same. */
	if (peer->device == context->device)
		return fake_leave(PEER_ACCESS_UNSUPPORTED);
	if (find(context, peer))
		return fake_leave(PEER_ACCESS_ALREADY_ENABLED);
	place = find(context, NULL);
	if (place == NULL)
		return fake_leave(711); /* CUDA_ERROR_TOO_MANY_PEERS */
	*place = peer;
	return fake_leave(OK);
}

int cuCtxDisablePeerAccess(struct CUctx_st *peer)
{
	struct CUctx_st *context, **place;
	int result = fake_enter(FN_cuCtxDisablePeerAccess, &context);

	if (result != OK)
		return result;
	result = fake_context_check(peer);
	if (result != OK)
		return fake_leave(result);
	place = find(context, peer);
	if (place == NULL)
		return fake_leave(PEER_ACCESS_NOT_ENABLED);
	*place = NULL;
	return fake_leave(OK);
}

void fake_peers_forget(const struct CUctx_st *context)
{
	struct CUctx_st *other, **place;

	for (other = fake_contexts; other; other = other->next)
		while ((place = find(other, context)) != NULL)
			*place = NULL;
}
