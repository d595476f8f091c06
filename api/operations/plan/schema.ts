/** The JSON Schema of a plan. */
import { planSchema } from '../../../trainer/loop/plan/plan-schema.ts';
import { shownSchema } from '../operation.ts';

export const schema = async () => shownSchema(planSchema);
export const printed = (output: object): string => JSON.stringify(output, null, 2);
