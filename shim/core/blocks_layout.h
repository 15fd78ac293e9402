/* core/blocks_layout.h -- the file that MT_REQUEST_SNAPSHOT leaves beside the stats file,
 * NAME.blocks, mode 0600: the blocks that the pool knows, one after the other as they were met. A
 * block that was freed and allocated again meanwhile may be there twice, under one base: the later
 * one is right. Written under another name and renamed when it is whole; whoever has asked removes
 * it after reading. All integers are native-endian. A reader trusts nothing in it. */
#ifndef MT_CORE_BLOCKS_LAYOUT_H
#define MT_CORE_BLOCKS_LAYOUT_H

#include <stdint.h>

#define MT_BLOCKS_MAGIC   0x31736b6c62746dull /* "mtblks1" */
#define MT_BLOCKS_VERSION 1u
/* 32 MB of file; those beyond are counted alone */
#define MT_BLOCKS_MAX 1000000u
/* ordinals from here on are told as the last one */
#define MT_BLOCKS_DEVICES 256u

enum mt_blocks_state {
	MT_BLOCKS_LIVE, /* the program has it */
	/* the same, and others than this process know its address: its free goes straight to the
	 * driver */
	MT_BLOCKS_EXPORTED,
	MT_BLOCKS_PENDING, /* freed; work that may use it still runs */
	MT_BLOCKS_IDLE,    /* freed and ready */
	MT_BLOCKS_STATES
};

struct mt_blocks_entry {
	uint64_t base;        /* device address */
	uint64_t held_bytes;  /* what the driver was asked for */
	uint64_t asked_bytes; /* what the program asked for; of an idle one: the last time */
	/* since it was handed out, or freed; UINT32_MAX: that or more */
	uint32_t age_ms;
	uint16_t context; /* a number of the process's own */
	uint8_t device;   /* ordinal */
	uint8_t state;    /* enum mt_blocks_state */
};

struct mt_blocks_head {
	uint64_t magic;
	uint32_t version;         /* MT_BLOCKS_VERSION */
	uint32_t head_bytes;      /* sizeof(struct mt_blocks_head) */
	uint32_t entry_bytes;     /* sizeof(struct mt_blocks_entry) */
	uint32_t entries_count;   /* they follow the head */
	uint64_t left_out_count;  /* met beyond MT_BLOCKS_MAX */
	uint64_t time_ns;         /* CLOCK_REALTIME at the beginning */
	uint64_t duration_ns;     /* from the first block to the last */
	uint64_t longest_hold_ns; /* longest time that a lock of the pool was held for it */
	uint64_t decay_ms;        /* MT_CUDA_DECAY_MS */
	uint64_t entries_sum;     /* core/checksum.h, of all entries */
	uint64_t checksum;        /* the same of the head before this field */
};

_Static_assert(sizeof(struct mt_blocks_entry) == 32, "no padding, and whole words for the sum");
_Static_assert(sizeof(struct mt_blocks_head) % 8 == 0, "the checksum goes by 8-byte words");

#endif
