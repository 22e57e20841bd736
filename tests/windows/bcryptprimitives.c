/* What Rust's standard library takes random numbers from, and Wine before 9.0 lacks. */
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T count)
{
    return RtlGenRandom(bytes, (ULONG)count);
}
