/** All methods, loaded: for whoever runs several or describes them all. */
import { FILES, type MethodName, methodsIn, type NamedMethod, unknownMethod } from './catalogue.ts';
import type { Method, MethodKind } from './method.ts';

const KINDS: readonly MethodKind[] = ['filter', 'score', 'reward', 'credit', 'process', 'blame'];

const loaded = await Promise.all(FILES.map(async (file) => methodsIn(file, await file.load())));

/** By kind, then by name. */
export const METHODS: readonly Method[] = loaded
  .flat()
  .sort((a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) || (a.name < b.name ? -1 : 1));

/** The method of that name among the judge's, or among those given. @throws TroupeError `method_unknown`, with the nearest name where one is near */
export function findMethod<Name extends MethodName>(name: Name): NamedMethod<Name>;
export function findMethod(name: string, methods?: readonly Method[]): Method;
export function findMethod(name: string, methods: readonly Method[] = METHODS): unknown {
  const method = methods.find((one) => one.name === name);
  if (method !== undefined) return method;
  throw unknownMethod(
    name,
    methods.map((one) => one.name),
  );
}
