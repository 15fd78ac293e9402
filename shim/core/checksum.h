/* core/checksum.h -- the checksum of the shim's files: FNV-1a, 64 bit, over 8-byte words. Writer
 * and reader share it. Any thread may call. Takes no lock, owns no state. It detects truncated and
 * half-written files, never a forged one. Source: http://www.isthe.com/chongo/tech/comp/fnv/, with
 * words in the place of bytes. */
#ifndef MT_CORE_CHECKSUM_H
#define MT_CORE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MT_CHECKSUM_START 0xcbf29ce484222325ull

/* Returns the checksum of `bytes` bytes at words, continued from `sum`: MT_CHECKSUM_START at first.
 * Bytes after the last whole word do not count. */
static inline uint64_t mt_checksum(uint64_t sum, const void *words, size_t bytes)
{
	const unsigned char *at = words;
	uint64_t word;

	for (size_t done = 0; done + sizeof(word) <= bytes; done += sizeof(word)) {
		memcpy(&word, at + done, sizeof(word));
		sum = (sum ^ word) * 0x100000001b3ull;
	}
	return sum;
}

#endif
