/** Every operation, by noun. A noun's file loads when one of its operations is used. */
import { methodOf, nounOf } from './names.ts';
import type { Method, Operation } from './operation.ts';

export const NOUNS = {
  key: () => import('./key.ts'),
  deadletters: () => import('./deadletters.ts'),
  schedule: () => import('./schedule.ts'),
  receiver: () => import('./receiver.ts'),
} as const;

type Modules = { readonly [N in keyof typeof NOUNS]: Awaited<ReturnType<(typeof NOUNS)[N]>> };
/** The operations as methods: `schedule.pause({…})`. */
export type Methods = {
  readonly [N in keyof Modules]: { readonly [V in keyof Modules[N]]: Method<Modules[N][V]> };
};

/** Of one noun, by name. */
export const operationsOf = async (noun: string): Promise<readonly Operation[]> =>
  Object.values(await NOUNS[noun as keyof typeof NOUNS]()).sort((a, b) => (a.name < b.name ? -1 : 1));

export const allOperations = async (): Promise<readonly Operation[]> =>
  (await Promise.all(Object.keys(NOUNS).map(operationsOf))).flat();

/** Methods for these operations, each by one function. */
export function methodsBy(
  operations: readonly Pick<Operation, 'name'>[],
  call: (name: string, input: unknown) => Promise<unknown>,
): Methods {
  const methods: Record<string, Record<string, (input?: unknown) => Promise<unknown>>> = {};
  for (const { name } of operations) {
    methods[nounOf({ name })] ??= {};
    methods[nounOf({ name })]![methodOf({ name })] = (input = {}) => call(name, input);
  }
  return methods as unknown as Methods;
}
