/* kernels.h -- the two kernels as PTX text of the oldest target that drivers of today still take;
 * the driver compiles it for the device at hand. Loaded by gpu.c alone. */
#ifndef GPU_KERNELS_H
#define GPU_KERNELS_H

static const char kernels_ptx[] =
	".version 6.4\n"
	".target sm_50\n"
	".address_size 64\n"
	/* Waits until so many nanoseconds of the device's clock have passed. */
	".visible .entry mt_spin(.param .u64 ns)\n"
	"{\n"
	"	.reg .pred p;\n"
	"	.reg .u64 begin, now, limit;\n"
	"	ld.param.u64 limit, [ns];\n"
	"	mov.u64 begin, %globaltimer;\n"
	"LOOP:\n"
	"	mov.u64 now, %globaltimer;\n"
	"	sub.u64 now, now, begin;\n"
	"	setp.lt.u64 p, now, limit;\n"
	"	@p bra LOOP;\n"
	"	ret;\n"
	"}\n"
	/* Writes value to each of the words, a grid of any size striding over them. */
	".visible .entry mt_fill(.param .u64 dst, .param .u64 words, .param .u32 value)\n"
	"{\n"
	"	.reg .pred p;\n"
	"	.reg .u64 base, end, index, stride, address;\n"
	"	.reg .u32 thread, block, threads, blocks, what;\n"
	"	ld.param.u64 base, [dst];\n"
	"	ld.param.u64 end, [words];\n"
	"	ld.param.u32 what, [value];\n"
	"	cvta.to.global.u64 base, base;\n"
	"	mov.u32 thread, %tid.x;\n"
	"	mov.u32 block, %ctaid.x;\n"
	"	mov.u32 threads, %ntid.x;\n"
	"	mov.u32 blocks, %nctaid.x;\n"
	"	mad.lo.u32 thread, block, threads, thread;\n"
	"	cvt.u64.u32 index, thread;\n"
	"	mul.lo.u32 blocks, blocks, threads;\n"
	"	cvt.u64.u32 stride, blocks;\n"
	"NEXT:\n"
	"	setp.ge.u64 p, index, end;\n"
	"	@p bra DONE;\n"
	"	shl.b64 address, index, 2;\n"
	"	add.u64 address, base, address;\n"
	"	st.global.u32 [address], what;\n"
	"	add.u64 index, index, stride;\n"
	"	bra NEXT;\n"
	"DONE:\n"
	"	ret;\n"
	"}\n";

#endif
