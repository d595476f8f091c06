/** One request to a sampling process, whichever way it came: what it asks is checked and done, and a failure becomes its reply. */
import { got, TroupeError } from '../../errors.ts';
import type { Batches, InferTask } from './infer-batches.ts';
import type { ErrorReply, OnPart } from './infer-wire.ts';

/** The JSON object of a line. @throws TroupeError `input_refused` */
export function parseRequest(line: string): Record<string, unknown> {
  let request: unknown;
  try {
    request = JSON.parse(line);
  } catch (cause) {
    throw new TroupeError('input_refused', `This line is not JSON: ${got(line)}.`, { cause });
  }
  if (typeof request === 'object' && request !== null && !Array.isArray(request))
    return request as Record<string, unknown>;
  throw new TroupeError('input_refused', `A request must be a JSON object, it is ${got(request)}.`);
}

/** Does one of these operations. @throws TroupeError `input_refused` for any other, and what the operation throws */
export function perform(
  batches: Batches,
  operations: readonly InferTask['op'][],
  { op, ask }: { readonly op: unknown; readonly ask: Record<string, unknown> },
  { signal, onPart }: { readonly signal: AbortSignal; readonly onPart: OnPart },
): Promise<object> | object {
  if (op === 'status') return batches.status();
  if (operations.includes(op as InferTask['op']))
    return batches.submit({ op, ask, signal, onPart } as unknown as InferTask);
  throw new TroupeError('input_refused', `op must be ${operations.join(', ')} or status, it is ${got(op)}.`, {
    field: 'op',
  });
}

export function errorReply(id: unknown, error: unknown): ErrorReply {
  if (!(error instanceof TroupeError))
    return { id, error: { code: 'internal', message: String((error as Error)?.message ?? error) } };
  const { code, message, detail } = error;
  return { id, error: { code, message, ...(detail.field === undefined ? {} : { field: detail.field }) } };
}
