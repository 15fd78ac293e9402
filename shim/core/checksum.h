/* core/checksum.h -- FNV-1a, 64 bit, by 8-byte words: the checksum of our files, for who writes and
 * who reads them. It finds what was cut or is half written; it keeps nobody from forging. Source:
 * http://www.isthe.com/chongo/tech/comp/fnv/, with words instead of bytes. */
#ifndef MT_CORE_CHECKSUM_H
#define MT_CORE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MT_CHECKSUM_START 0xcbf29ce484222325ull

/* Goes on from `sum`; bytes behind the last whole word do not count. */
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
