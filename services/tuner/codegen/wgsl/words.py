"""Words that no identifier of a WGSL module may be."""

_TEXT = """
alias break case const const_assert continue continuing default diagnostic discard else enable
false fn for if let loop override requires return struct switch true var while
array atomic bool f16 f32 i32 u32 ptr sampler texture vec2 vec3 vec4 mat2x2 mat4x4 bitcast
abs max min exp fma round select sqrt inverseSqrt workgroupBarrier subgroupAdd subgroupMax
dot4U8Packed subgroupShuffleXor storageBarrier unpack2x16float pack2x16float
NULL Self abstract active alignas alignof as asm asm_fragment async attribute auto await become
binding_array cast catch class co_await co_return co_yield coherent column_major common compile
compile_fragment concept const_cast consteval constexpr constinit crate debugger decltype delete
demote demote_to_helper do dynamic_cast enum explicit export extends extern external fallthrough
filter final finally friend from fxgroup get goto groupshared highp impl implements import
inline instanceof interface layout lowp macro macro_rules match mediump meta mod module move mut
mutable namespace new nil noexcept noinline nointerpolation non_coherent noncoherent
noperspective null nullptr of operator package packoffset partition pass patch pixelfragment
precise precision premerge priv protected pub public readonly ref regardless register
reinterpret_cast require resource restrict self set shared sizeof smooth snorm static
static_assert static_cast std subroutine super target template this thread_local throw trait try
type typedef typeid typename typeof union unless unorm unsafe unsized use using varying virtual
volatile wgsl where with writeonly yield
"""
WORDS = frozenset(_TEXT.split())
"""Keywords and reserved words (WGSL, section 16), and the built-in functions that we call."""
