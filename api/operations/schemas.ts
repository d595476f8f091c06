/** The JSON Schemas of documents. */
import { recipeSchema } from '../../store/datasets/recipe.ts';
import { planSchema } from '../../trainer/loop/plan/plan-schema.ts';
import { shownSchema } from './operation.ts';

export const plan = async () => shownSchema(planSchema);
export const recipe = async () => shownSchema(recipeSchema);

export const printed = (schema: object): string => JSON.stringify(schema, null, 2);
