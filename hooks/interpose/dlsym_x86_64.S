// SPDX-License-Identifier: Apache-2.0
// The entries dlsym and dlvsym. A name that does not begin with "cu" or "nccl" and a capital letter, or with "Init", goes on to the next dlsym as if we were not
// there: a jump, not a call, since the real one takes its caller from the return address (RTLD_NEXT, RTLD_DEFAULT).
// Other names are shown to thermocline_answer (hooks/interpose/answer.cc), which answers in rax with rdx set, or leaves them, too.
// thermocline_next_dlsym and thermocline_next_dlvsym live in hooks/interpose/dynamic_linker.cc.

#if !defined(__x86_64__) || defined(__ILP32__)
#error "dlsym can be stood in for on x86-64 only; other machines need an entry of their own beside this one"
#endif

#include <cet.h>

// rdi: handle, rsi: name, rdx: version (dlvsym). `next` holds the address to go on to; `version` is what the third argument of
// thermocline_answer becomes.
.macro entry name, next, version
    .globl \name
    .type \name, @function
    .p2align 4
\name:
    .cfi_startproc
    _CET_ENDBR
    testq %rsi, %rsi
    je 1f
    cmpb $'n', (%rsi)
    je 4f
    cmpb $'I', (%rsi)
    je 6f
    cmpb $'c', (%rsi)
    jne 1f
    cmpb $'u', 1(%rsi)
    jne 1f
    movzbl 2(%rsi), %eax
    jmp 5f
4:
    cmpb $'c', 1(%rsi)
    jne 1f
    cmpb $'c', 2(%rsi)
    jne 1f
    cmpb $'l', 3(%rsi)
    jne 1f
    movzbl 4(%rsi), %eax
    jmp 5f
6:
    cmpb $'n', 1(%rsi)
    jne 1f
    cmpb $'i', 2(%rsi)
    jne 1f
    cmpb $'t', 3(%rsi)
    jne 1f
    movzbl (%rsi), %eax
5:
    subl $'A', %eax
    cmpl $25, %eax
    ja 1f
    // The stack is 8 off alignment at entry; three registers make it 16.
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    pushq %rdx
    .cfi_adjust_cfa_offset 8
    \version
    movq 24(%rsp), %rcx
    call thermocline_answer
    testq %rdx, %rdx
    popq %rdx
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    je 1f
    ret
1:
    movq \next(%rip), %rax
    testq %rax, %rax
    je 2f
    jmp *%rax
2:
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    pushq %rdx
    .cfi_adjust_cfa_offset 8
    call thermocline_find_next
    popq %rdx
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    movq \next(%rip), %rax
    testq %rax, %rax
    je 3f
    jmp *%rax
3:
    // No dynamic linker to ask: nothing is found.
    ret
    .cfi_endproc
    .size \name, . - \name
.endm

    .text
    .hidden thermocline_answer
    .hidden thermocline_find_next
    .hidden thermocline_next_dlsym
    .hidden thermocline_next_dlvsym

    entry dlsym, thermocline_next_dlsym, "xorl %edx, %edx"
    entry dlvsym, thermocline_next_dlvsym, ""

    .section .note.GNU-stack, "", @progbits
