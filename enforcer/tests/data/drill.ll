; The source of drill.o, which reads two fields of `struct task_struct` by CO-RE:
;   opt -O2 -mtriple=bpf drill.ll | llc -march=bpf -filetype=obj -o drill.o     (LLVM 14)
target datalayout = "e-m:e-p:64:64-i64:64-i128:128-n32:64-S128"
target triple = "bpf"
%struct.task_struct = type { i32, i32, i64 }

define dso_local i32 @look(%struct.task_struct* %task) section "classifier" !dbg !10 {
  %1 = call i32* @llvm.preserve.struct.access.index.p0i32.p0s(%struct.task_struct* elementtype(%struct.task_struct) %task, i32 1, i32 1), !dbg !30, !llvm.preserve.access.index !14
  %2 = load i32, i32* %1, align 4, !dbg !30
  %3 = call i64* @llvm.preserve.struct.access.index.p0i64.p0s(%struct.task_struct* elementtype(%struct.task_struct) %task, i32 2, i32 2), !dbg !30, !llvm.preserve.access.index !14
  %4 = load i64, i64* %3, align 8, !dbg !30
  %5 = trunc i64 %4 to i32
  %6 = add i32 %2, %5
  ret i32 %6, !dbg !30
}
define dso_local i32 @pass(%struct.task_struct* %task) section "classifier" !dbg !40 {
  ret i32 0, !dbg !41
}
declare i32* @llvm.preserve.struct.access.index.p0i32.p0s(%struct.task_struct*, i32, i32)
declare i64* @llvm.preserve.struct.access.index.p0i64.p0s(%struct.task_struct*, i32, i32)

!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!3, !4}
!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !1, producer: "drill", isOptimized: true, runtimeVersion: 0, emissionKind: FullDebug, enums: !2)
!1 = !DIFile(filename: "drill.c", directory: "/drill")
!2 = !{}
!3 = !{i32 7, !"Dwarf Version", i32 4}
!4 = !{i32 2, !"Debug Info Version", i32 3}
!5 = !DIBasicType(name: "int", size: 32, encoding: DW_ATE_signed)
!6 = !DIBasicType(name: "long", size: 64, encoding: DW_ATE_signed)
!10 = distinct !DISubprogram(name: "look", scope: !1, file: !1, line: 3, type: !11, unit: !0, spFlags: DISPFlagDefinition | DISPFlagOptimized, retainedNodes: !2)
!11 = !DISubroutineType(types: !12)
!12 = !{!5, !13}
!13 = !DIDerivedType(tag: DW_TAG_pointer_type, baseType: !14, size: 64)
!14 = distinct !DICompositeType(tag: DW_TAG_structure_type, name: "task_struct", file: !1, line: 1, size: 128, elements: !15)
!15 = !{!16, !17, !18}
!16 = !DIDerivedType(tag: DW_TAG_member, name: "pid", scope: !14, file: !1, line: 1, baseType: !5, size: 32)
!17 = !DIDerivedType(tag: DW_TAG_member, name: "tgid", scope: !14, file: !1, line: 1, baseType: !5, size: 32, offset: 32)
!18 = !DIDerivedType(tag: DW_TAG_member, name: "start_time", scope: !14, file: !1, line: 1, baseType: !6, size: 64, offset: 64)
!30 = !DILocation(line: 4, scope: !10)
!40 = distinct !DISubprogram(name: "pass", scope: !1, file: !1, line: 6, type: !11, unit: !0, spFlags: DISPFlagDefinition | DISPFlagOptimized, retainedNodes: !2)
!41 = !DILocation(line: 7, scope: !40)
