/* ctl/channel/pool_snapshot_pickle.c -- `mtctl snapshot -o FILE.pickle`: blocks in the form of
 * torch.cuda.memory._snapshot(), for PyTorch's memory_viz. Opcodes: Python's Lib/pickletools.py.
 * Only those that the reader in memory_viz knows, too (torch/utils/viz/MemoryViz.js). */
#include <stdlib.h>
#include <string.h>

#include "ctl/channel/pool_snapshot.h"
#include "sys/saturating.h"

/* Large blocks come from segments of their own in PyTorch from this size on (kSmallSize). */
#define SMALL_BYTES ((uint64_t)1 << 20)
#define MARK        '('
#define SETITEMS    'u'
#define APPEND      'a'

/* Texts that occur in each block: written once, and then by their number in the memo. */
#define WORDS(X)                                                                                   \
	X(segments)                                                                                \
	X(device_traces)                                                                           \
	X(device)                                                                                  \
	X(address)                                                                                 \
	X(total_size)                                                                              \
	X(allocated_size)                                                                          \
	X(active_size)                                                                             \
	X(requested_size)                                                                          \
	X(stream)                                                                                  \
	X(segment_type)                                                                            \
	X(segment_pool_id)                                                                         \
	X(is_expandable)                                                                           \
	X(frames)                                                                                  \
	X(blocks)                                                                                  \
	X(size)                                                                                    \
	X(state)                                                                                   \
	X(action)                                                                                  \
	X(addr)                                                                                    \
	X(time_us)                                                                                 \
	X(filename)                                                                                \
	X(line)                                                                                    \
	X(name)                                                                                    \
	X(mtshim)                                                                                  \
	X(large)                                                                                   \
	X(small)                                                                                   \
	X(alloc)                                                                                   \
	X(active_allocated)                                                                        \
	X(active_pending_free)                                                                     \
	X(inactive)

enum word {
#define X(word) WORD_##word,
	WORDS(X) WORDS_COUNT
#undef X
};

/* The memo has the words, and behind them the frames of each state. */
_Static_assert(WORDS_COUNT + MT_BLOCKS_STATES <= 256, "BINPUT has one byte");

struct pickle {
	FILE *to;
	bool is_known[WORDS_COUNT + MT_BLOCKS_STATES];
};

static void put_byte(const struct pickle *pickle, int byte)
{
	putc_unlocked(byte, pickle->to);
}

static void put_little(const struct pickle *pickle, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		put_byte(pickle, (int)(value >> 8 * i & 255));
}

static void put_text(const struct pickle *pickle, const char *text)
{
	put_byte(pickle, 'X'); /* BINUNICODE */
	put_little(pickle, strlen(text), 4);
	fputs(text, pickle->to);
}

/* LONG1 is signed: a ninth byte where the highest bit is set. memory_viz reads up to eight. */
static void put_number(const struct pickle *pickle, uint64_t value)
{
	if (value < 256) {
		put_byte(pickle, 'K'); /* BININT1 */
		put_byte(pickle, (int)value);
	} else if (value <= INT32_MAX) {
		put_byte(pickle, 'J'); /* BININT */
		put_little(pickle, value, 4);
	} else {
		unsigned bytes = value >> 63 ? 9 : 8;

		put_byte(pickle, 0x8a); /* LONG1 */
		put_byte(pickle, (int)bytes);
		put_little(pickle, value, 8);
		if (bytes == 9)
			put_byte(pickle, 0);
	}
}

/* Returns true where the memo has it, and it is on the stack now. */
static bool get(const struct pickle *pickle, unsigned place)
{
	if (!pickle->is_known[place])
		return false;
	put_byte(pickle, 'h'); /* BINGET */
	put_byte(pickle, (int)place);
	return true;
}

static void note(struct pickle *pickle, unsigned place)
{
	put_byte(pickle, 'q'); /* BINPUT */
	put_byte(pickle, (int)place);
	pickle->is_known[place] = true;
}

static void put_word(struct pickle *pickle, enum word word)
{
	static const char *const words[] = {
#define X(word) #word,
		WORDS(X)
#undef X
	};

	if (get(pickle, word))
		return;
	put_text(pickle, words[word]);
	note(pickle, word);
}

static void set_number(struct pickle *pickle, enum word key, uint64_t value)
{
	put_word(pickle, key);
	put_number(pickle, value);
}

static void set_word(struct pickle *pickle, enum word key, enum word value)
{
	put_word(pickle, key);
	put_word(pickle, value);
}

static void begin_dict(const struct pickle *pickle)
{
	put_byte(pickle, '}'); /* EMPTY_DICT */
	put_byte(pickle, MARK);
}

static void begin_list(const struct pickle *pickle)
{
	put_byte(pickle, ']'); /* EMPTY_LIST */
}

/* No stacks are known. One frame has the state in the words of mtctl, which has more of them. */
static void set_frames(struct pickle *pickle, unsigned state)
{
	put_word(pickle, WORD_frames);
	if (get(pickle, WORDS_COUNT + state))
		return;
	begin_list(pickle);
	begin_dict(pickle);
	set_word(pickle, WORD_filename, WORD_mtshim);
	set_number(pickle, WORD_line, 0);
	put_word(pickle, WORD_name);
	put_text(pickle, mt_blocks_file_state(state));
	put_byte(pickle, SETITEMS);
	put_byte(pickle, APPEND);
	note(pickle, WORDS_COUNT + state);
}

static bool is_live(const struct mt_blocks_entry *entry)
{
	return entry->state == MT_BLOCKS_LIVE || entry->state == MT_BLOCKS_EXPORTED;
}

static void put_block(struct pickle *pickle, const struct mt_blocks_entry *entry)
{
	begin_dict(pickle);
	set_number(pickle, WORD_address, entry->base);
	set_number(pickle, WORD_size, entry->held_bytes);
	set_number(pickle, WORD_requested_size, entry->asked_bytes);
	set_word(pickle, WORD_state,
		 is_live(entry)                      ? WORD_active_allocated
		 : entry->state == MT_BLOCKS_PENDING ? WORD_active_pending_free
						     : WORD_inactive);
	set_frames(pickle, entry->state);
	put_byte(pickle, SETITEMS);
}

/* The stream is the context: blocks of one are of no use in another. */
static void put_segment(struct pickle *pickle, const struct mt_blocks_entry *entry)
{
	bool is_active = entry->state != MT_BLOCKS_IDLE;

	begin_dict(pickle);
	set_number(pickle, WORD_device, entry->device);
	set_number(pickle, WORD_address, entry->base);
	set_number(pickle, WORD_total_size, entry->held_bytes);
	set_number(pickle, WORD_allocated_size, is_live(entry) ? entry->held_bytes : 0);
	set_number(pickle, WORD_active_size, is_active ? entry->held_bytes : 0);
	set_number(pickle, WORD_requested_size, is_active ? entry->asked_bytes : 0);
	set_number(pickle, WORD_stream, entry->context);
	set_word(pickle, WORD_segment_type,
		 entry->held_bytes > SMALL_BYTES ? WORD_large : WORD_small);
	put_word(pickle, WORD_segment_pool_id);
	put_number(pickle, 0);
	put_number(pickle, 0);
	put_byte(pickle, 0x86); /* TUPLE2 */
	put_word(pickle, WORD_is_expandable);
	put_byte(pickle, 0x89); /* NEWFALSE */
	set_frames(pickle, entry->state);
	put_word(pickle, WORD_blocks);
	begin_list(pickle);
	put_block(pickle, entry);
	put_byte(pickle, APPEND);
	put_byte(pickle, SETITEMS);
}

/* ---- traces ---- */

/* Age of a live block: how long ago it was handed out. */
static void put_event(struct pickle *pickle, const struct mt_blocks_entry *entry, uint64_t now_ns)
{
	begin_dict(pickle);
	set_word(pickle, WORD_action, WORD_alloc);
	set_number(pickle, WORD_addr, entry->base);
	set_number(pickle, WORD_size, entry->asked_bytes);
	set_number(pickle, WORD_stream, entry->context);
	set_number(pickle, WORD_time_us,
		   mt_sat_sub(now_ns / 1000u, entry->age_ms * UINT64_C(1000)));
	set_frames(pickle, entry->state);
	put_byte(pickle, SETITEMS);
}

static int by_age(const void *a, const void *b)
{
	const struct mt_blocks_entry *x = *(const struct mt_blocks_entry *const *)a,
				     *y = *(const struct mt_blocks_entry *const *)b;

	if (x->age_ms != y->age_ms)
		return x->age_ms < y->age_ms ? 1 : -1;
	return (x->base > y->base) - (x->base < y->base);
}

/* One list for each device, by its number: readers index it by that. */
static void put_traces(struct pickle *pickle, const struct mt_blocks_entry **live, size_t count,
		       unsigned devices, uint64_t now_ns)
{
	qsort(live, count, sizeof(*live), by_age);
	put_word(pickle, WORD_device_traces);
	begin_list(pickle);
	for (unsigned device = 0; device < devices; device++) {
		begin_list(pickle);
		for (size_t i = 0; i < count; i++)
			if (live[i]->device == device) {
				put_event(pickle, live[i], now_ns);
				put_byte(pickle, APPEND);
			}
		put_byte(pickle, APPEND);
	}
}

void mt_pool_snapshot_write_pickle(const struct mt_pool_snapshot *snapshot,
				   const struct mt_pool_snapshot_view *view, FILE *to)
{
	struct pickle pickle = {.to = to};
	size_t count, live_count = 0;
	size_t *places = mt_pool_snapshot_pick(&snapshot->blocks, view, false, &count);
	const struct mt_blocks_entry **live =
		mt_error_check_memory(calloc(count + 1, sizeof(*live)));
	unsigned devices = 0;

	put_byte(&pickle, 0x80); /* PROTO */
	put_byte(&pickle, 2);
	begin_dict(&pickle);
	put_word(&pickle, WORD_segments);
	begin_list(&pickle);
	for (size_t i = 0; i < count; i++) {
		const struct mt_blocks_entry *entry = &snapshot->blocks.entries[places[i]];

		put_segment(&pickle, entry);
		put_byte(&pickle, APPEND);
		devices = entry->device >= devices ? entry->device + 1u : devices;
		if (is_live(entry))
			live[live_count++] = entry;
	}
	put_traces(&pickle, live, live_count, devices, snapshot->blocks.head.time_ns);
	put_text(&pickle, "allocator_settings");
	put_byte(&pickle, '}');
	put_text(&pickle, "external_annotations");
	begin_list(&pickle);
	put_byte(&pickle, SETITEMS);
	put_byte(&pickle, '.'); /* STOP */
	free(live);
	free(places);
}
