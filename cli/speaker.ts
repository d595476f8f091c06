/** A model directory and its policy, opened. */
export async function speaker(dir: string, threads: number) {
  const [{ openModelForIds }, { Policy }] = await Promise.all([
    import('../trainer/model/model-directory.ts'),
    import('../trainer/sample/policy.ts'),
  ]);
  const model = await openModelForIds(dir);
  return { model, policy: await Policy.load(model.config, model.weights, { threads }) };
}
