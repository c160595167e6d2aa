// A device made for tests: its memory is the host's, its kernels are the CPU's, called by a fallback
// that copies what they take. PyTorch sees it as any plugin's device, by the key PrivateUse1.
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <ATen/ops/set_cpu_dispatch.h>
#include <ATen/ops/view_cpu_dispatch.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/extension.h>

#include <atomic>
#include <cstring>

namespace {

constexpr auto TYPE = c10::DeviceType::PrivateUse1;
constexpr int DEVICES = 2;
thread_local int current = 0;
std::atomic<long> calls{0};

struct Guard final : public c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return TYPE; }
  c10::Device exchangeDevice(c10::Device to) const override {
    c10::Device before(TYPE, current);
    current = to.index();
    return before;
  }
  c10::Device getDevice() const override { return {TYPE, static_cast<c10::DeviceIndex>(current)}; }
  void setDevice(c10::Device to) const override { current = to.index(); }
  void uncheckedSetDevice(c10::Device to) const noexcept override { current = to.index(); }
  c10::Stream getStream(c10::Device on) const override { return c10::Stream(c10::Stream::DEFAULT, on); }
  c10::Stream exchangeStream(c10::Stream to) const override { return to; }
  c10::DeviceIndex deviceCount() const noexcept override { return DEVICES; }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Allocator final : public c10::Allocator {
  c10::DataPtr allocate(size_t size) override {
    void* data = size ? c10::alloc_cpu(size) : nullptr;
    return {data, data, &c10::free_cpu, {TYPE, static_cast<c10::DeviceIndex>(current)}};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &c10::free_cpu; }
  void copy_data(void* to, const void* from, size_t size) const override {
    default_copy_data(to, from, size);
  }
};

Allocator allocator;
REGISTER_ALLOCATOR(TYPE, &allocator);

struct Hooks final : public at::PrivateUse1HooksInterface {
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  at::Generator getNewGenerator(c10::DeviceIndex) const override {
    return at::detail::createCPUGenerator();
  }
};

// Tensors of the CPU over the same memory.
at::Tensor shown(const at::Tensor& one) {
  if (!one.device().is_privateuseone()) return one;
  auto options = one.options().device(at::kCPU).requires_grad(false);
  return at::from_blob(one.data_ptr(), one.sizes(), one.strides(), options);
}

at::Tensor made(c10::IntArrayRef size, c10::ScalarType type, std::optional<c10::Device> on) {
  c10::DeviceGuard guard(on.value_or(c10::Device(TYPE, current)));
  return at::detail::empty_generic(size, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type,
                                   std::nullopt);
}

at::Tensor empty(c10::IntArrayRef size, std::optional<c10::ScalarType> type, std::optional<c10::Layout>,
                 std::optional<c10::Device> on, std::optional<bool>, std::optional<c10::MemoryFormat> format) {
  auto found = made(size, type.value_or(at::get_default_dtype_as_scalartype()), on);
  if (format && *format != c10::MemoryFormat::Preserve && *format != c10::MemoryFormat::Contiguous)
    found.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  return found;
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<c10::ScalarType> type,
                         std::optional<c10::Layout>, std::optional<c10::Device> on, std::optional<bool>) {
  c10::DeviceGuard guard(on.value_or(c10::Device(TYPE, current)));
  return at::detail::empty_strided_generic(size, stride, &allocator,
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           type.value_or(at::get_default_dtype_as_scalartype()));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  calls++;
  shown(to).copy_(shown(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) to.resize_(from.sizes());
  return copy_from(from, to, false);
}

const at::Tensor& resize(const at::Tensor& one, c10::SymIntArrayRef size, std::optional<c10::MemoryFormat>) {
  auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  if (one.sizes() == sizes) return one;
  auto bytes = at::detail::computeStorageNbytesContiguous(sizes, one.itemsize(), one.storage_offset());
  auto* storage = one.storage().unsafeGetStorageImpl();
  if (storage->nbytes() < bytes) {
    auto grown = allocator.allocate(bytes);
    if (storage->nbytes()) std::memcpy(grown.get(), storage->data(), storage->nbytes());
    storage->set_data_ptr_noswap(std::move(grown));
    storage->set_nbytes(bytes);
  }
  one.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return one;
}

at::Tensor view(const at::Tensor& one, c10::SymIntArrayRef size) {
  return at::native::view(one, C10_AS_INTARRAYREF_SLOW(size));
}

at::Tensor as_strided(const at::Tensor& one, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                      std::optional<c10::SymInt> offset) {
  auto start = offset ? std::optional<int64_t>(offset->guard_int(__FILE__, __LINE__)) : std::nullopt;
  return at::native::as_strided_tensorimpl(one, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
                                           start);
}

at::Tensor reshape_alias(const at::Tensor& one, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  return as_strided(one, size, stride, std::nullopt);
}

at::Tensor& set_storage(at::Tensor& one, c10::Storage storage, c10::SymInt offset, c10::SymIntArrayRef size,
                        c10::SymIntArrayRef stride) {
  one.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  one.unsafeGetTensorImpl()->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
                                                   offset.guard_int(__FILE__, __LINE__));
  return one;
}

at::Scalar element(const at::Tensor& one) { return shown(one).item(); }

at::Tensor convolution(const at::Tensor& x, const at::Tensor& w, const std::optional<at::Tensor>& bias,
                       c10::IntArrayRef stride, c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
                       c10::IntArrayRef more, int64_t groups) {
  auto added = bias && bias->defined() ? std::optional<at::Tensor>(shown(*bias)) : std::nullopt;
  return at::convolution(shown(x), shown(w), added, stride, padding, dilation, transposed, more, groups)
      .to(x.device());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& grad, const at::Tensor& x, const at::Tensor& w, c10::IntArrayRef stride,
    c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed, c10::IntArrayRef more, int64_t groups,
    std::array<bool, 3> wanted) {
  auto [dx, dw, db] = at::convolution_backward(shown(grad), shown(x), shown(w), w.size(0), stride, padding, dilation,
                                               transposed, more, groups, wanted);
  auto moved = [&](const at::Tensor& one) { return one.defined() ? one.to(x.device()) : one; };
  return {moved(dx), moved(dw), moved(db)};
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  calls++;
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("resize_", resize);
  m.impl("view", view);
  m.impl("as_strided", as_strided);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("_local_scalar_dense", element);
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  at::RegisterPrivateUse1HooksInterface(new Hooks());
  m.def("calls", [] { return calls.load(); });
  m.def("current_device", [] { return current; });
  m.def("device_count", [] { return DEVICES; });
}
