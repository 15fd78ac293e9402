// cuda_abi.cc -- compares declarations of the Driver API with an installed cuda.h: those of the
// shim and those of the stand-in for libcuda. test_cuda_abi.py compiles it. Two functions are alike
// when they take as many parameters of the same size and kind, and point to numbers of the same
// width. A wrapper that hands words on must get as many, and none that lies elsewhere.
// DECLARED_* say what this header declares; older ones lack some.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cuda.h>

#include "cuda_abi_names.h"

namespace fake
{
#define FAKE_API_TYPES_ONLY
#include "api.h"
} // namespace fake
namespace shim
{
#include "abi.h"
#include "gpu/driver.def"
} // namespace shim

template <class A, class B> constexpr bool same_target()
{
	if (std::is_void<A>::value || std::is_void<B>::value || std::is_function<A>::value ||
	    std::is_function<B>::value)
		return std::is_function<A>::value == std::is_function<B>::value;
	if constexpr ((std::is_arithmetic<A>::value || std::is_enum<A>::value) &&
		      (std::is_arithmetic<B>::value || std::is_enum<B>::value))
		return sizeof(A) == sizeof(B);
	return std::is_pointer<A>::value == std::is_pointer<B>::value;
}

template <class A, class B> constexpr bool same()
{
	if constexpr (std::is_pointer<A>::value && std::is_pointer<B>::value)
		return same_target<typename std::remove_pointer<A>::type,
				   typename std::remove_pointer<B>::type>();
	return sizeof(A) == sizeof(B) && std::is_pointer<A>::value == std::is_pointer<B>::value &&
	       std::is_class<A>::value == std::is_class<B>::value;
}

// What lies in a register for integers, or in one place of eight bytes on the stack.
template <class A> constexpr bool is_word()
{
	return sizeof(A) <= sizeof(uint64_t) &&
	       (std::is_pointer<A>::value || std::is_integral<A>::value || std::is_enum<A>::value);
}

template <class A, class B> struct alike : std::false_type {
};
template <class R, class... A, class S, class... B> struct alike<R(A...), S(B...)> {
	static constexpr bool all()
	{
		if constexpr (sizeof...(A) != sizeof...(B))
			return false;
		else if constexpr ((std::is_same<B, uint64_t>::value && ...))
			return sizeof(R) == sizeof(S) && (is_word<A>() && ...);
		else
			return sizeof(R) == sizeof(S) && (same<A, B>() && ... && true);
	}
	static constexpr bool value = all();
};

#define CHECK(where, name)                                                                         \
	static_assert(alike<decltype(::name), where::type_##name>::value,                          \
		      #where " declares " #name " otherwise");
#define EQUAL(ours, theirs) static_assert(int(ours) == int(theirs), #ours " is not " #theirs);

namespace fake
{
#define N(symbol, base, since, needs, parameters) using type_##symbol = int parameters;
#define Z(symbol, base, since, needs, parameters)                                                  \
	using type_##symbol = int parameters;                                                      \
	using type_##symbol##_ptsz = int parameters;
#define D(symbol, base, since, needs, parameters)                                                  \
	using type_##symbol = int parameters;                                                      \
	using type_##symbol##_ptds = int parameters;
FAKE_FUNCTIONS_CORE(N, Z, D)
FAKE_FUNCTIONS_MORE(N, Z, D)
} // namespace fake
namespace shim
{
#define X(symbol, parameters, ...) using type_##symbol = int parameters;
MT_DRIVER_FUNCTIONS(X)
MT_DRIVER_QUERIES(X)
} // namespace shim

CHECK_FAKE
CHECK_SHIM
CHECK_VALUES

// What is handed over by layout.
#define LAYOUT(ours, theirs)                                                                       \
	static_assert(sizeof(ours) == sizeof(theirs), #ours " is not as large as " #theirs);
#define FIELD(ours, field, theirs, its)                                                            \
	static_assert(offsetof(ours, field) == offsetof(theirs, its),                              \
		      #ours "." #field " is elsewhere than " #theirs "." #its);

LAYOUT(fake::fake_uuid, CUuuid)
LAYOUT(fake::fake_ipc_handle, CUipcMemHandle)
LAYOUT(shim::mt_cu_ipc_handle, CUipcMemHandle)
LAYOUT(fake::fake_allocation_prop, CUmemAllocationProp)
FIELD(fake::fake_allocation_prop, location, CUmemAllocationProp, location)
LAYOUT(shim::mt_cu_allocation_prop, CUmemAllocationProp)
FIELD(shim::mt_cu_allocation_prop, location, CUmemAllocationProp, location)
LAYOUT(fake::fake_location, CUmemLocation)
FIELD(shim::mt_cu_location, id, CUmemLocation, id)
LAYOUT(fake::fake_access, CUmemAccessDesc)
FIELD(fake::fake_access, flags, CUmemAccessDesc, flags)
LAYOUT(fake::fake_array_desc, CUDA_ARRAY_DESCRIPTOR)
FIELD(fake::fake_array_desc, format, CUDA_ARRAY_DESCRIPTOR, Format)
LAYOUT(shim::mt_cu_array_descriptor, CUDA_ARRAY_DESCRIPTOR)
FIELD(shim::mt_cu_array_descriptor, channels, CUDA_ARRAY_DESCRIPTOR, NumChannels)
LAYOUT(fake::fake_array3d_desc, CUDA_ARRAY3D_DESCRIPTOR)
FIELD(fake::fake_array3d_desc, depth, CUDA_ARRAY3D_DESCRIPTOR, Depth)
LAYOUT(shim::mt_cu_array3d_descriptor, CUDA_ARRAY3D_DESCRIPTOR)
FIELD(shim::mt_cu_array3d_descriptor, flags, CUDA_ARRAY3D_DESCRIPTOR, Flags)
LAYOUT(fake::fake_copy2d, CUDA_MEMCPY2D)
FIELD(fake::fake_copy2d, src_device, CUDA_MEMCPY2D, srcDevice)
FIELD(fake::fake_copy2d, dst_pitch, CUDA_MEMCPY2D, dstPitch)
FIELD(fake::fake_copy2d, height, CUDA_MEMCPY2D, Height)
#if CUDA_VERSION >= 12020
LAYOUT(fake::fake_pool_props, CUmemPoolProps)
FIELD(fake::fake_pool_props, location, CUmemPoolProps, location)
#endif
#if CUDA_VERSION >= 12040
LAYOUT(fake::fake_resource, CUdevResource)
FIELD(fake::fake_resource, count, CUdevResource, sm)
#endif
