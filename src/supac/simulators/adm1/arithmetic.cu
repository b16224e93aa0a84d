// Arithmetic of the generated routines on a GPU; on a processor, that of its own.
#ifdef __CUDACC__
#define WARP 32
#define SHARED_MEMORY(name, size) extern __shared__ double name[]
#define wait_for_warp() __syncwarp()
#define any_of_warp(condition) __any_sync(0xffffffffu, condition)
#define high_word(x) __double2hiint(x)

// Half of the cost of a division: the operand is neither zero nor denormal. The relative error of
// the first approximation, 2^-20, is cubed.
__device__ __forceinline__ double reciprocal(double x)
{
    double r;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(x));
    const double e = fma(-x, r, 1.0);
    return fma(r, fma(e, e, e), r);
}

// Without branches, so that several are computed side by side. Of positive normal numbers, NaN of
// others: x = 2^k m, log m = 2 artanh s with s = (m - 1)/(m + 1), |s| < 0.172.
__device__ __forceinline__ double logarithm(double x)
{
    const int high = __double2hiint(x), k = (high - 0x3fe6a09e) >> 20;
    const double m = __hiloint2double(high - (k << 20), __double2loint(x));
    const double s = (m - 1.0) * reciprocal(m + 1.0), z = s * s;
    double p = 1.0 / 21.0;
    #pragma unroll
    for (int n = 19; n >= 3; n -= 2) p = fma(p, z, 1.0 / n);
    const double twice = s + s;
    const double result = fma((double)k, 0.69314718055994531, fma(twice * z, p, twice));
    return (unsigned)(high - 1) < 0x7fefffffu ? result : NAN;
}

// x = k log 2 + r, |r| < 0.347, and the series of e^r; far beyond 1e300 and 1e-300 it stays there.
__device__ __forceinline__ double exponential(double x)
{
    const double shifted = fma(x, 1.4426950408889634, 6755399441055744.0);
    const double whole = shifted - 6755399441055744.0;
    const double r = fma(whole, -2.3190468138462996e-17, fma(whole, -0.69314718055994529, x));
    double factorial = 6227020800.0, p = 1.0 / factorial;
    #pragma unroll
    for (int n = 13; n >= 1; --n) {
        factorial /= n;
        p = fma(p, r, 1.0 / factorial);
    }
    const int k = min(max(__double2loint(shifted), -1000), 1000);
    return __hiloint2double(__double2hiint(p) + (k << 20), __double2loint(p));
}
#else
#define WARP 1
#define SHARED_MEMORY(name, size) static double name[size]
#define wait_for_warp()
#define any_of_warp(condition) (condition)
#define high_word(x) (std::signbit(x) ? -1 : 0)
#define reciprocal(x) (1.0 / (x))
#define logarithm(x) std::log(x)
#define exponential(x) std::exp(x)
#endif
