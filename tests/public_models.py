"""Config values of public models that are not built in, and what is known of them.

Values: the models' own config.json on the Hub. Known: parameter counts of their cards (total, active), reports in
tests/data/memory_reports.csv, and bytes per token from heads x width x 2 x 2 per layer that has a cache. Active parameters
include the input embedding, which some cards leave out (gpt-oss-20b: 4.19 less 0.58 is the card's 3.6 billion). DeepSeek-V3's
14,848 values that balance its experts are buffers in Transformers 5.24 and no parameters.
"""

DEEPSEEK_V3 = {
    "model_type": "deepseek_v3",
    "auto_map": {"AutoModelForCausalLM": "modeling_deepseek.DeepseekV3ForCausalLM"},
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "n_group": 8,
    "topk_group": 4,
    "first_k_dense_replace": 3,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 129280,
    "max_position_embeddings": 163840,
    "tie_word_embeddings": False,
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
}

GPT_OSS_20B = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_hidden_layers": 24,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "num_local_experts": 32,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
    "vocab_size": 201088,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
}
GPT_OSS_120B = GPT_OSS_20B | {"num_hidden_layers": 36, "num_local_experts": 128}

QWEN3_4B = {
    "model_type": "qwen3",
    "hidden_size": 2560,
    "intermediate_size": 9728,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": True,
}

QWEN3_30B_A3B = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": False,
}

QWEN3_6_27B = {
    "model_type": "qwen3_5",
    "tie_word_embeddings": False,
    "text_config": {
        "model_type": "qwen3_5_text",
        "hidden_size": 5120,
        "intermediate_size": 17408,
        "num_hidden_layers": 64,
        "num_attention_heads": 24,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "full_attention_interval": 4,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 48,
        "vocab_size": 248320,
        "max_position_embeddings": 262144,
        "tie_word_embeddings": False,
    },
}

GEMMA4_26B_A4B = {
    "model_type": "gemma4_text",
    "hidden_size": 2816,
    "intermediate_size": 2112,
    "moe_intermediate_size": 704,
    "num_hidden_layers": 30,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "num_global_key_value_heads": 2,
    "head_dim": 256,
    "global_head_dim": 512,
    "attention_k_eq_v": True,
    "enable_moe_block": True,
    "num_experts": 128,
    "top_k_experts": 8,
    "sliding_window": 1024,
    "hidden_size_per_layer_input": 0,
    "vocab_size": 262144,
    "max_position_embeddings": 262144,
    "tie_word_embeddings": True,
}

MISTRAL_SMALL_24B = {
    "model_type": "mistral",
    "hidden_size": 5120,
    "intermediate_size": 32768,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "sliding_window": None,
    "vocab_size": 131072,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": False,
}

LFM2_1_2B = {
    "model_type": "lfm2",
    "hidden_size": 2048,
    "intermediate_size": 12288,
    "block_auto_adjust_ff_dim": True,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "layer_types": ["full_attention" if index in (2, 5, 8, 10, 12, 14) else "conv" for index in range(16)],
    "conv_L_cache": 3,
    "vocab_size": 65536,
    "max_position_embeddings": 128000,
    "tie_word_embeddings": True,
}

GEMMA3_4B_AS_PUBLISHED = {
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    },
    "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 1152, "num_hidden_layers": 27},
}

RECURRENT_GEMMA_2B = {
    "model_type": "recurrent_gemma",
    "hidden_size": 2560,
    "intermediate_size": 15360,
    "lru_width": 2560,
    "num_hidden_layers": 26,
    "num_attention_heads": 10,
    "num_key_value_heads": 1,
    "head_dim": 256,
    "block_types": ["recurrent", "recurrent", "attention"],
    "attention_window_size": 2048,
    "vocab_size": 256000,
}

MINIMAX_TEXT_01 = {
    "model_type": "minimax",
    "hidden_size": 6144,
    "intermediate_size": 9216,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_local_experts": 32,
    "num_experts_per_tok": 2,
    "layer_types": ["full_attention" if index % 8 == 7 else "linear_attention" for index in range(80)],
    "vocab_size": 200064,
    "max_position_embeddings": 10240000,
    "tie_word_embeddings": False,
}

BAMBA_9B = {
    "model_type": "bamba",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "attn_layer_indices": [9, 18, 27],
    "mamba_n_heads": 128,
    "mamba_d_state": 128,
    "mamba_n_groups": 1,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}

QWEN2_VL_7B = {
    "model_type": "qwen2_vl",
    "architectures": ["Qwen2VLForConditionalGeneration"],
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
    "sliding_window": 32768,
    "use_sliding_window": False,
    "tie_word_embeddings": False,
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
    "vision_config": {"depth": 32, "embed_dim": 1280, "num_heads": 16, "hidden_size": 3584, "patch_size": 14},
}

GEMMA_3N_E2B = {
    "model_type": "gemma3n",
    "text_config": {
        "model_type": "gemma3n_text",
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 30,
        "num_kv_shared_layers": 10,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "layer_types": ["full_attention" if index % 5 == 4 else "sliding_attention" for index in range(30)],
        "activation_sparsity_pattern": [0.95] * 10 + [0.0] * 20,
        "vocab_size": 262400,
    },
}

BART_LARGE = {
    "model_type": "bart",
    "architectures": ["BartModel"],
    "d_model": 1024,
    "encoder_layers": 12,
    "decoder_layers": 12,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
    "encoder_ffn_dim": 4096,
    "decoder_ffn_dim": 4096,
    "vocab_size": 50265,
    "max_position_embeddings": 1024,
}

LLAMA4_SCOUT = {
    "architectures": ["Llama4ForConditionalGeneration"],
    "model_type": "llama4",
    "text_config": {
        "model_type": "llama4_text",
        "attention_chunk_size": 8192,
        "head_dim": 128,
        "hidden_size": 5120,
        "interleave_moe_layer_step": 1,
        "intermediate_size": 8192,
        "intermediate_size_mlp": 16384,
        "max_position_embeddings": 10485760,
        "num_attention_heads": 40,
        "num_experts_per_tok": 1,
        "num_hidden_layers": 48,
        "num_key_value_heads": 8,
        "num_local_experts": 16,
        "vocab_size": 202048,
    },
}

_FACTS = {
    "DeepSeek-V3": (DEEPSEEK_V3, 671.03, 37.55, 61 * 576 * 2, 0, {"latent": 61}),
    "gpt-oss-20b": (GPT_OSS_20B, 20.91, 4.19, 24 * 2048, 0, {"sliding": 12, "full": 12}),
    "gpt-oss-120b": (GPT_OSS_120B, 116.83, 5.71, 36 * 2048, 0, {"sliding": 18, "full": 18}),
    "Qwen3-4B": (QWEN3_4B, 4.02, 4.02, 147_456, 0, {"full": 36}),
    "Qwen3-30B-A3B": (QWEN3_30B_A3B, 30.53, 3.35, 48 * 2048, 0, {"full": 48}),
    "Qwen3.6-27B": (QWEN3_6_27B, 26.9, 26.9, 65_536, 48 * (48 * 128 * 128 * 4 + 10_240 * 4 * 2), {"linear": 48, "full": 16}),
    "Gemma 4 26B A4B": (GEMMA4_26B_A4B, 25.23, 3.82, 25 * 8192 + 5 * 4096, 0, {"sliding": 25, "full": 5}),
    "Mistral-Small-24B": (MISTRAL_SMALL_24B, 23.57, 23.57, 163_840, 0, {"full": 40}),
    "LFM2-1.2B": (LFM2_1_2B, 1.17, 1.17, 6 * 2048, 10 * 2048 * 3 * 2, {"recurrent": 10, "full": 6}),
    "RecurrentGemma 2B": (RECURRENT_GEMMA_2B, 2.68, 2.68, 8 * 1024, 18 * (2560 * 3 * 2 + 2560 * 4), {"recurrent": 18, "sliding": 8}),
    "MiniMax-Text-01": (MINIMAX_TEXT_01, 456.09, 48.4, 10 * 4096, 70 * 64 * 128 * 128 * 2, {"linear": 70, "full": 10}),
    "Bamba-9B": (BAMBA_9B, 9.78, 9.78, 3 * 4096, 29 * (128 * 64 * 128 * 4 + 8448 * 4 * 2), {"recurrent": 29, "full": 3}),
    "Qwen2-VL-7B": (QWEN2_VL_7B, 7.62, 7.62, 57_344, 0, {"full": 28}),
    "Gemma 3n E2B": (GEMMA_3N_E2B, 4.44, 4.44, 20 * 2048, 0, {"sliding": 16, "full": 4, "shared": 10}),
    "BART large": (BART_LARGE, 0.41, 0.41, 12 * 4096, 0, {"full": 12}),
    "Gemma 3 4B as published": (GEMMA3_4B_AS_PUBLISHED, 3.88, 3.88, 139_264, 0, {"sliding": 29, "full": 5}),
}
NAMES, FACTS = list(_FACTS), list(_FACTS.values())
