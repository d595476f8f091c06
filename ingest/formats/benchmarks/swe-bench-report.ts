/** What the harness of SWE-bench found out about a prediction: resolved or not, and each test as a cell of an execution matrix. */
import type { Draft, Matrix } from '../../events/events.ts';
import { given, hashId, isRecord, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { NativeRefusal } from '../kit/format.ts';
import { badIdentifier, type Emitter, refusal } from '../kit/native.ts';

type Fields = Readonly<Record<string, unknown>>;

export const isReport = (value: unknown): boolean =>
  isRecord(value) && ('resolved' in value || 'patch_successfully_applied' in value || 'patch_exists' in value);

export function badReport(report: unknown, instance: string): NativeRefusal | null {
  if (!isRecord(report)) return refusal('bad_type', instance, 'a report object', report);
  const { resolved } = report;
  if (typeof resolved === 'boolean') return badIdentifier(instance, 'instance_id');
  return refusal('bad_type', `${instance}.resolved`, 'true or false', resolved);
}

type Report = {
  readonly instance: string;
  readonly report: Fields;
  readonly canonical: string;
  /** The prediction it is about; null where that is unknown. */
  readonly episodeId: string | null;
};

/** The verdict on an episode, or on the task where several predictions or none could be meant. */
export function reportDraft(
  emit: Emitter,
  format: string,
  { instance, report, canonical, episodeId }: Report,
): Draft[] {
  const matrix = matrixOf(report.tests_status);
  const id = hashId(format, 'report', episodeId, canonical);
  return [
    emit.event('feedback.recorded', [id], {
      feedback_id: id,
      target:
        episodeId === null ? { kind: 'task', id: instance } : { kind: 'episode', id: episodeId, episode_id: episodeId },
      kind: 'execution',
      name: 'resolved',
      value: report.resolved as boolean,
      ...given('matrix', matrix ?? undefined),
      by: 'code',
      ...(episodeId === null ? { flags: ['prediction_unknown'] } : {}),
      ...given('unmapped', without(report, 'resolved')),
    }),
  ];
}

/** One program against all tests that were reported; null where none was. */
function matrixOf(status: unknown): Matrix | null {
  if (!isRecord(status)) return null;
  const cells = new Map<string, 0 | 1>();
  for (const group of Object.values(status).filter(isRecord)) {
    for (const [list, cell] of [
      ['success', 1],
      ['failure', 0],
    ] as const) {
      const names = Array.isArray(group[list]) ? group[list] : [];
      for (const name of names.filter(isIdentifier)) cells.set(name, cell);
    }
  }
  if (cells.size === 0) return null;
  const tests = [...cells].sort(([a], [b]) => (a < b ? -1 : 1));
  return {
    programs: [{ name: 'model_patch' }],
    tests: tests.map(([name]) => ({ name })),
    pass: [tests.map(([, cell]) => cell)],
  };
}
