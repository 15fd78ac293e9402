/* core/blocks_layout.h -- the format of the device block dump, NAME.blocks, mode 0600, that
 * MT_REQUEST_SNAPSHOT writes beside the stats file: one entry for each block of the GPU pool. A
 * block that is freed and allocated again meanwhile may have two entries with one base: the later
 * one is right. The process writes the dump under another name and renames it when it is complete;
 * the requester unlinks it. All integers are native-endian. A reader trusts nothing in the file. */
#ifndef MT_CORE_BLOCKS_LAYOUT_H
#define MT_CORE_BLOCKS_LAYOUT_H

#include <stdint.h>

#define MT_BLOCKS_MAGIC   0x31736b6c62746dull /* "mtblks1" */
#define MT_BLOCKS_VERSION 1u
/* 32 MB of file; further blocks are only counted */
#define MT_BLOCKS_MAX 1000000u
/* larger ordinals are stored as the last one */
#define MT_BLOCKS_DEVICES 256u

enum mt_blocks_state {
	MT_BLOCKS_LIVE, /* the program holds it */
	/* live, and other processes know its address: its free goes straight to the driver */
	MT_BLOCKS_EXPORTED,
	MT_BLOCKS_PENDING, /* freed; device work that may use it still runs */
	MT_BLOCKS_IDLE,    /* freed and ready */
	MT_BLOCKS_STATES
};

struct mt_blocks_entry {
	uint64_t base;        /* device address */
	uint64_t held_bytes;  /* requested from the driver */
	uint64_t asked_bytes; /* requested by the program, the last time for an idle block */
	/* since its allocation, or its free; UINT32_MAX: that or more */
	uint32_t age_ms;
	uint16_t context; /* numbered within the process */
	uint8_t device;   /* ordinal */
	uint8_t state;    /* enum mt_blocks_state */
};

struct mt_blocks_head {
	uint64_t magic;
	uint32_t version;         /* MT_BLOCKS_VERSION */
	uint32_t head_bytes;      /* sizeof(struct mt_blocks_head) */
	uint32_t entry_bytes;     /* sizeof(struct mt_blocks_entry) */
	uint32_t entries_count;   /* they follow the head */
	uint64_t left_out_count;  /* blocks beyond MT_BLOCKS_MAX */
	uint64_t time_ns;         /* CLOCK_REALTIME at the beginning */
	uint64_t duration_ns;     /* from the first block to the last */
	uint64_t longest_hold_ns; /* longest time that a pool lock was held for it */
	uint64_t decay_ms;        /* MT_CUDA_DECAY_MS */
	uint64_t entries_sum;     /* core/checksum.h, of all entries */
	uint64_t checksum;        /* the same of the head before this field */
};

_Static_assert(sizeof(struct mt_blocks_entry) == 32, "no padding, and whole words for the sum");
_Static_assert(sizeof(struct mt_blocks_head) % 8 == 0, "the checksum goes by 8-byte words");

#endif
