/* graph.c -- graphs: captured or made, made executable, launched as one piece of work of a stream.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct CUgraph_st *fake_graph_make(void)
{
	struct CUgraph_st *graph = fake_object_new(FAKE_GRAPH_OBJECT, sizeof(*graph));

	if (graph == NULL)
		abort();
	graph->nodes = NULL;
	graph->count = graph->room = 0;
	graph->memory = NULL;
	fake_ledger.graphs++;
	return graph;
}

void fake_graph_drop(struct CUgraph_st *graph)
{
	unsigned int i;

	for (i = 0; i < graph->count; i++) {
		fake_work_drop(&graph->nodes[i]->work);
		free(graph->nodes[i]->deps);
		free(graph->nodes[i]);
	}
	free(graph->nodes);
	fake_graph_memory_unref(graph->memory);
	fake_ledger.graphs--;
	fake_object_free(FAKE_GRAPH_OBJECT, graph);
}

struct CUgraphNode_st *fake_graph_add(struct CUgraph_st *graph, const struct fake_work *work,
				      struct CUgraphNode_st *const *deps, unsigned int count)
{
	struct CUgraphNode_st *node = fake_alloc(sizeof(*node));

	node->work = *work;
	node->graph = graph;
	node->dep_count = count;
	node->deps = fake_alloc(sizeof(*node->deps) * count);
	if (count > 0)
		memcpy(node->deps, deps, sizeof(*node->deps) * count);
	if (graph->count == graph->room) {
		graph->room = graph->room ? graph->room * 2 : 8;
		graph->nodes = realloc(graph->nodes, graph->room * sizeof(struct CUgraphNode_st *));
		if (graph->nodes == NULL)
			abort();
	}
	graph->nodes[graph->count++] = node;
	return node;
}

void fake_exec_unref(struct CUgraphExec_st *exec)
{
	unsigned int i;

	if (--exec->refs > 0)
		return;
	for (i = 0; i < exec->count; i++)
		if (exec->works[i].kind == WORK_GRAPH)
			fake_exec_unref(exec->works[i].exec);
	free(exec->works);
	fake_graph_memory_unref(exec->memory);
	fake_object_free(FAKE_EXEC, exec);
}

int cuGraphCreate(struct CUgraph_st **graph, unsigned int flags)
{
	const int result = fake_enter(FN_cuGraphCreate, NULL);

	if (result != OK)
		return result;
	if (graph == NULL || flags != 0)
		return fake_leave(INVALID_VALUE);
	*graph = fake_graph_make();
	return fake_leave(OK);
}

static bool is_captured_into(const struct CUgraph_st *graph)
{
	const struct fake_capture *capture;

	for (capture = fake_captures; capture; capture = capture->next)
		if (capture->graph == graph)
			return true;
	return false;
}

int cuGraphDestroy(struct CUgraph_st *graph)
{
	const int result = fake_enter(FN_cuGraphDestroy, NULL);

	if (result != OK)
		return result;
	if (!fake_object_is(FAKE_GRAPH_OBJECT, graph) || is_captured_into(graph))
		return fake_leave(INVALID_VALUE);
	fake_graph_drop(graph);
	return fake_leave(OK);
}

int cuGraphGetNodes(struct CUgraph_st *graph, struct CUgraphNode_st **nodes, size_t *count)
{
	const int result = fake_enter(FN_cuGraphGetNodes, NULL);
	size_t i;

	if (result != OK)
		return result;
	if (!fake_object_is(FAKE_GRAPH_OBJECT, graph) || count == NULL)
		return fake_leave(INVALID_VALUE);
	for (i = 0; nodes && i < *count; i++)
		nodes[i] = i < graph->count ? graph->nodes[i] : NULL;
	if (nodes == NULL || *count > graph->count)
		*count = graph->count;
	return fake_leave(OK);
}

/* The order of making is one in which every node comes after what it depends on. */
static int instantiate(enum fake_fn fn, struct CUgraphExec_st **out, struct CUgraph_st *graph)
{
	struct CUgraphExec_st *exec;
	unsigned int i;
	const int result = fake_enter(fn, NULL);

	if (result != OK)
		return result;
	if (out == NULL || !fake_object_is(FAKE_GRAPH_OBJECT, graph) || is_captured_into(graph))
		return fake_leave(INVALID_VALUE);
	exec = fake_object_new(FAKE_EXEC, sizeof(*exec));
	if (exec == NULL)
		return fake_leave(OUT_OF_MEMORY);
	exec->works = fake_alloc(sizeof(*exec->works) * graph->count);
	exec->count = graph->count;
	exec->refs = 1;
	exec->is_dead = false;
	exec->memory = graph->memory;
	if (exec->memory)
		exec->memory->refs++;
	for (i = 0; i < graph->count; i++) {
		exec->works[i] = graph->nodes[i]->work;
		if (exec->works[i].kind == WORK_GRAPH)
			exec->works[i].exec->refs++;
	}
	fake_ledger.graphs++;
	*out = exec;
	return fake_leave(OK);
}

int cuGraphInstantiate(struct CUgraphExec_st **exec, struct CUgraph_st *graph,
		       struct CUgraphNode_st **node, char *log, size_t bytes)
{
	(void)node;
	(void)log;
	(void)bytes;
	return instantiate(FN_cuGraphInstantiate, exec, graph);
}

int cuGraphInstantiate_v2(struct CUgraphExec_st **exec, struct CUgraph_st *graph,
			  struct CUgraphNode_st **node, char *log, size_t bytes)
{
	(void)node;
	(void)log;
	(void)bytes;
	return instantiate(FN_cuGraphInstantiate_v2, exec, graph);
}

int cuGraphInstantiateWithFlags(struct CUgraphExec_st **exec, struct CUgraph_st *graph,
				unsigned long long flags)
{
	(void)flags;
	return instantiate(FN_cuGraphInstantiateWithFlags, exec, graph);
}

static int launch(enum fake_fn fn, struct CUgraphExec_st *exec, struct CUstream_st *handle,
		  bool for_show)
{
	struct fake_work work = {.kind = for_show ? WORK_NOTHING : WORK_GRAPH, .exec = exec};
	struct CUctx_st *context;
	struct CUstream_st *stream;
	int result = fake_enter(fn, &context);

	if (result != OK)
		return result;
	if (!fake_object_is(FAKE_EXEC, exec) || exec->is_dead)
		return fake_leave(INVALID_VALUE);
	result = fake_stream_of(context, handle, fn, &stream);
	if (result != OK)
		return fake_leave(result);
	if (!for_show)
		exec->refs++;
	return fake_leave(fake_submit(stream, &work));
}

static int on_cuGraphLaunch(enum fake_fn fn, struct CUgraphExec_st *exec,
			    struct CUstream_st *stream)
{
	return launch(fn, exec, stream, false);
}
FAKE_TWINS(cuGraphLaunch, _ptsz, (struct CUgraphExec_st * exec, struct CUstream_st *stream), exec,
	   stream)

static int on_cuGraphUpload(enum fake_fn fn, struct CUgraphExec_st *exec,
			    struct CUstream_st *stream)
{
	return launch(fn, exec, stream, true);
}
FAKE_TWINS(cuGraphUpload, _ptsz, (struct CUgraphExec_st * exec, struct CUstream_st *stream), exec,
	   stream)

/* A launch in flight goes on. */
int cuGraphExecDestroy(struct CUgraphExec_st *exec)
{
	const int result = fake_enter(FN_cuGraphExecDestroy, NULL);

	if (result != OK)
		return result;
	if (!fake_object_is(FAKE_EXEC, exec) || exec->is_dead)
		return fake_leave(INVALID_VALUE);
	exec->is_dead = true;
	fake_ledger.graphs--;
	fake_exec_unref(exec);
	return fake_leave(OK);
}
