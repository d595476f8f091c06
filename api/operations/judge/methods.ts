/** Methods as people write them in one line: names, with parameters in braces, separated by commas. */
import { Type } from 'typebox';
import { got, TroupeError } from '../../../errors.ts';
import type { MethodRequest } from '../../../store/evaluate/judging/judge.ts';
import { written } from '../operation.ts';

/**
 * `a,b{"x":1}`: what stands in braces is JSON; its `reads` names the reward method whose rewards the method takes.
 * @throws TroupeError `usage` for braces that are not JSON or never close.
 */
export function parseMethods(list: string): MethodRequest[] {
  return partsOf(list).map((item) => {
    const brace = item.indexOf('{');
    if (brace < 0) return { method: item.trim() };
    try {
      const { reads, ...params } = JSON.parse(item.slice(brace)) as Record<string, unknown>;
      return { method: item.slice(0, brace).trim(), params, ...(typeof reads === 'string' ? { reads } : {}) };
    } catch (cause) {
      throw new TroupeError('usage', `The parameters of ${got(item)} are not JSON: ${(cause as Error).message}.`, {
        cause,
      });
    }
  });
}

/** The same methods as one line. */
const writtenMethods = (methods: readonly MethodRequest[]): string =>
  methods
    .map(({ method, params = {}, reads }) => {
      const inBraces = { ...params, ...(reads === undefined ? {} : { reads }) };
      return Object.keys(inBraces).length === 0 ? method : `${method}${JSON.stringify(inBraces)}`;
    })
    .join();

/** The methods of the setting `judge`. @throws TroupeError `config_invalid` for what cannot always run */
export async function standingMethods(judge: string | null): Promise<readonly MethodRequest[]> {
  if (judge === null) return [];
  const { compareEverything, requireRunnable, resolveMethods } = await import(
    '../../../store/evaluate/judging/judge.ts'
  );
  const wrong = (why: string) =>
    new TroupeError('config_invalid', `The setting judge (TROUPE_JUDGE) cannot run: ${why}`, { field: 'judge' });
  let methods: readonly MethodRequest[];
  try {
    methods = parseMethods(judge);
    requireRunnable(await resolveMethods(methods));
  } catch (error) {
    throw error instanceof TroupeError ? wrong(error.message) : error;
  }
  if (await compareEverything(methods))
    throw wrong('it names a method that compares all episodes; run that by `troupe judge --methods …`.');
  return methods;
}

/** Commas inside braces, and braces inside quotes, belong to the parameters. */
function partsOf(list: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let quoted = false;
  let part = '';
  for (let i = 0; i < list.length; i++) {
    const c = list[i]!;
    if (quoted && c === '\\') {
      part += c + (list[++i] ?? '');
      continue;
    }
    if (c === '"' && depth > 0) quoted = !quoted;
    if (!quoted && c === '{') depth++;
    if (!quoted && c === '}') depth--;
    if (!quoted && c === ',' && depth === 0) {
      parts.push(part);
      part = '';
    } else part += c;
  }
  return [...parts, part];
}

/** The field of an input that names them. */
export const methods = written(
  Type.Array(
    Type.Object(
      {
        method: Type.String(),
        params: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
        reads: Type.Optional(Type.String({ description: 'the reward method before it whose rewards it takes' })),
      },
      { additionalProperties: false },
    ),
    {
      minItems: 1,
      description: 'names, with parameters in braces: grpo_advantage{"scale_std":false},drmas_advantage',
    },
  ),
  { value: 'list', parse: parseMethods, text: writtenMethods },
);
