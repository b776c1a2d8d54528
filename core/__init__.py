"""Draftgauge's product code: everything that can be used and tested without Streamlit. Each module says at its top why it exists.

Where to look:

    rounds and time     theory expected policies decoding trace walk replay rounds acceptance calibration widths timing stalled
    the answer of a run evidence columns predict finalists recommend intervals landscape batch analysis verdict in_short reading situations translate
    a run and its store runs record measured provenance run_rows database migrations store shelf history notes trace_file sink
    queue and processes bench station child parent endings turns wait estimate_time planner plan_child answers bounded worker plan
    models and the Hub  hub hub_client hub_cache hub_check hub_errors pair address builtin model_folder model_info headers weights stamp usable
                        encoders own_heads placement vocab suggest
    before measuring    candidates advice advice_cost advice_runs alternatives devices estimate engines flow published smoke
    prompts             prompts prompt_text prompt_files prompt_rows prompt_draft chat typed stop
    drafts, ways, lanes group group_rows group_ways ways ways_ask way_calls way_results way_words lanes side side_ask side_prediction
    passes alone        shapes shapes_ask shapes_figures
    runs compared       comparison compare_runs compare_figures
    memory and money    memory memory_cache memory_curve memory_engines memory_fit memory_gain memory_served memory_figures fleet cost prices
    charts and words    figures maps details palette numbers markdown token_style player
    taken away          deploy deploy_encoders deploy_notes calls script export_csv export_json run_document privacy summary_markdown report_html
                        report_tables report_figures report_memory
    brought in          imports imports_check imports_counts imports_json imports_llama imports_pair imports_values imports_vllm
    the program itself  settings errors access redact log version
    pages' own pieces   ui
    data                demo known report schema
"""
