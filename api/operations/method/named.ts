/** The judge's methods and the trainer's losses by name, of which only the one asked for is loaded. */
import { loadMethod, METHOD_NAMES, unknownMethod } from '../../../store/evaluate/methods/catalogue.ts';
import type { Method } from '../../../store/evaluate/methods/method.ts';

/** @throws TroupeError `method_unknown`, with the nearest name where one is near */
export async function methodNamed(name: string): Promise<Method> {
  if (METHOD_NAMES.includes(name)) return loadMethod(name);
  const { LOSS_METHODS } = await import('../../../trainer/model/losses/catalogue.ts');
  const loss = LOSS_METHODS.find((one) => one.name === name);
  if (loss !== undefined) return loss;
  throw unknownMethod(name, [...METHOD_NAMES, ...LOSS_METHODS.map((one) => one.name)]);
}
