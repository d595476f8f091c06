/** Long operations over HTTP: each is a job of the queue, done by `troupe run work`. */
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { Type } from 'typebox';
import { TroupeError } from '../../errors.ts';
import { hashId } from '../../ingest/events/json.ts';
import { firstOf, query } from '../../store/db/query.ts';
import { checkedSpec, type Handler, requestJob } from '../../store/queue/jobs/jobs.ts';
import { allOperations } from './catalogue.ts';
import type { ChangeContext, Operation } from './operation.ts';
import { inputOf, perform } from './perform.ts';

/** The kind of these jobs. A schedule cannot request it, because the scope of an operation is checked when it is called. */
const KIND = 'operation';
const Spec = Type.Object({ operation: Type.String(), input: Type.Unknown(), by: Type.String() });
/** Between two reports of progress. */
const REPORT_MS = 2000;
/** Characters of a result that a job keeps: it becomes an event, and is read with the job. */
const MOST_RESULT = 8 * 1024 * 1024;

/**
 * Requests an operation as a job; a request with a key that was used before is answered with the job of the first.
 * @throws TroupeError `usage` for an input that does not fit; `conflict` where the key was used with another input
 */
export async function requestOperation(
  context: ChangeContext,
  operation: Operation,
  { input: given, key }: { readonly input: unknown; readonly key: string | undefined },
): Promise<{ readonly job_id: string }> {
  const { name } = operation;
  const input = inputOf(operation, given);
  const job_id = `${KIND}/${name}/${key === undefined ? randomUUID() : hashId([context.by, name, key])}`;
  const spec = { operation: name, input, by: context.by };
  await requestJob(context, { job_id, kind: KIND, spec });
  const queued = query.selectFrom('troupe.job_queue').select('spec').where('job_id', '=', job_id);
  if (!isDeepStrictEqual((await firstOf(context.db, queued))?.spec, JSON.parse(JSON.stringify(spec))))
    throw new TroupeError('conflict', `The Idempotency-Key was used for ${name} with another input.`, {
      field: 'Idempotency-Key',
    });
  return { job_id };
}

/** Does such jobs. */
export const operationHandler = (context: ChangeContext): Readonly<Record<string, Handler>> => ({
  [KIND]: async ({ spec }, report, fenced) => {
    const { operation: name, input, by } = checkedSpec(Spec, spec);
    const operation = (await allOperations()).find((one) => one.name === name);
    if (operation === undefined) throw new TroupeError('not_found', `There is no operation ${name}.`);
    let step = 0;
    let next = 0;
    const progress = (done: number, total: number) => {
      const now = performance.now();
      if (now < next) return;
      next = now + REPORT_MS;
      // A report that is lost is made up by the next one; a job that was cancelled hears of it by its signal.
      void report(step++, { done, total }).catch(() => {});
    };
    const signal = AbortSignal.any([fenced, context.signal]);
    const result = await perform(operation, { ...context, by, signal, progress }, input);
    const size = JSON.stringify(result)?.length ?? 0;
    if (size <= MOST_RESULT) return result;
    throw new TroupeError(
      'too_large',
      `The result of ${name} has ${size} characters, and a job keeps at most ${MOST_RESULT}; ask for less at a time.`,
    );
  },
});
